"""Our own workloads are ordinary scripts that train; their readers know published files and refuse damaged ones."""

import gzip
import io
import json
import pickle
import subprocess
import sys
import tarfile
import zipfile
from pathlib import PurePosixPath

import pytest
import torch
from PIL import Image

from paceline.launch.interpreter import workload_names
from paceline_workloads import caltech, deepwide, fruit, steering
from paceline_workloads.data.cifar import cifar10
from paceline_workloads.data.classes import base_name, split_by_base
from paceline_workloads.data.drawn_digits import drawn_digits
from paceline_workloads.data.drawn_images import drawn_patches, drawn_roads, drawn_textures
from paceline_workloads.data.examples import Examples, WithDraws
from paceline_workloads.data.idx import idx_examples
from paceline_workloads.data.images import archive
from paceline_workloads.networks.convolutional import DigitNetwork, PilotNetwork
from paceline_workloads.networks.resnet import resnet18
from paceline_workloads.networks.vision_transformer import VisionTransformer
from paceline_workloads.training import metrics
from paceline_workloads.training.augment import moved
from paceline_workloads.training.options import options
from tests.support.desk import environment


def task_of(workload, *words):
    given = workload.FLAGS.parse_args(["--device", "cpu", *map(str, words)])
    return workload.task(options(given, flags=workload.FLAGS, workers=1), given)


def test_workloads_are_found_without_importing_them():
    seven = {"caltech", "cifar-resnet18", "deepwide", "fruit", "mnist", "steering", "vit"}
    assert set(workload_names()) == seven


# ---------------------------------------------------------------- networks


def parameters(network):
    return sum(p.numel() for p in network.parameters())


def test_resnet_18_has_the_parameters_of_the_lab():
    assert parameters(resnet18()) == 11_173_962


def test_the_small_networks_are_as_large_as_they_say():
    assert parameters(DigitNetwork()) == 421_642
    assert parameters(PilotNetwork()) == 252_219


@pytest.mark.parametrize(("channels", "side"), [(1, 28), (3, 32)])
def test_a_vision_transformer_gives_one_score_per_class(channels, side):
    network = VisionTransformer(channels=channels, side=side, classes=7)
    assert network(torch.zeros(2, channels, side, side)).shape == (2, 7)


# ---------------------------------------------------------------- generated data


@pytest.mark.parametrize(
    "draw",
    [
        lambda seed: drawn_digits(60, seed=seed),
        lambda seed: drawn_patches(60, classes=6, height=16, width=16, seed=seed),
        lambda seed: drawn_textures(60, side=16, seed=seed),
        lambda seed: drawn_roads(60, seed=seed),
    ],
)
def test_generated_data_are_the_same_for_the_same_seed_and_no_other(draw):
    first, again, other = draw(3), draw(3), draw(4)
    assert first.inputs.dtype == torch.uint8
    assert torch.equal(first.inputs, again.inputs)
    assert torch.equal(first.targets, again.targets)
    assert not torch.equal(first.inputs, other.inputs)


def test_all_ten_digits_occur():
    assert set(drawn_digits(200, seed=3).targets.tolist()) == set(range(10))


def test_a_sample_is_augmented_alike_in_whatever_batch_it_comes():
    part = WithDraws(drawn_digits(50, seed=0), draws=3, seed=1, device=torch.device("cpu"))
    together, alone = part.__getitems__([3, 8, 9]), part.__getitems__([8])
    pictures = [moved(images, draws, most=2) for images, _, draws in (together, alone)]
    assert torch.equal(pictures[0][1], pictures[1][0])
    part.set_epoch(1)
    assert not torch.equal(part.__getitems__([8])[2], alone[2])


def test_an_image_that_is_moved_by_nothing_and_not_flipped_is_itself():
    images = torch.arange(2 * 3 * 4 * 4, dtype=torch.uint8).view(2, 3, 4, 4)
    assert torch.equal(moved(images, torch.full((2, 3), 0.5), most=2), images)
    assert torch.equal(moved(images, torch.tensor([[0.5, 0.5, 0.1]] * 2), most=2), images.flip(3))


# ---------------------------------------------------------------- idx


def idx_files():
    two, side = (0, 0, 0, 2), (0, 0, 0, 28)
    images = bytes([0, 0, 8, 3, *two, *side, *side]) + bytes(783) + b"\xff" + bytes(784)
    return {"train-images-idx3-ubyte": images, "train-labels-idx1-ubyte": bytes([0, 0, 8, 1, *two, 7, 3])}


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_published_files_are_read_plain_or_gzipped(tmp_path, suffix):
    for name, data in idx_files().items():
        (tmp_path / f"{name}{suffix}").write_bytes(gzip.compress(data) if suffix else data)
    digits = idx_examples(tmp_path, "train")
    assert digits.targets.tolist() == [7, 3]
    assert digits.inputs.shape == (2, 1, 28, 28)
    assert digits.inputs[0, 0, 27, 27] == 255
    assert digits.inputs[1].max() == 0


def test_missing_files_are_named(tmp_path):
    with pytest.raises(SystemExit, match="train-images-idx3-ubyte is not there"):
        idx_examples(tmp_path, "train")


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_file_cut_short_is_named(tmp_path, suffix):
    for name, data in idx_files().items():
        whole = gzip.compress(data) if suffix else data
        (tmp_path / f"{name}{suffix}").write_bytes(whole[:-9] if "images" in name else whole)
    with pytest.raises(SystemExit, match=r"train-images-idx3-ubyte.*(cut short|holds 1559)"):
        idx_examples(tmp_path, "train")


# ---------------------------------------------------------------- CIFAR-10


def cifar_batches():
    """Two images per batch; the label is also the first byte of the picture."""
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    return {
        name: [(label, bytes([label]) + bytes(3071)) for label in (i, i + 1)] for i, name in enumerate(names)
    }


def pickled(records):
    import numpy

    pixels = numpy.frombuffer(b"".join(p for _, p in records), dtype=numpy.uint8).reshape(-1, 3072)
    return pickle.dumps({b"data": pixels, b"labels": [label for label, _ in records]}, protocol=2)


def written(folder, layout):
    binary = layout.startswith("binary")
    inside = "cifar-10-batches-bin" if binary else "cifar-10-batches-py"
    files = {
        f"{inside}/{name}{'.bin' if binary else ''}": b"".join(bytes([n]) + p for n, p in records)
        if binary
        else pickled(records)
        for name, records in cifar_batches().items()
    }
    if layout.endswith("tar"):
        with tarfile.open(folder / f"cifar-10-{'binary' if binary else 'python'}.tar.gz", "w:gz") as tar:
            for name, data in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    else:
        (folder / inside).mkdir()
        for name, data in files.items():
            (folder / name).write_bytes(data)


@pytest.mark.parametrize("layout", ["binary", "python", "binary tar", "python tar"])
def test_every_published_layout_of_cifar_gives_the_same_images(tmp_path, layout):
    written(tmp_path, layout)
    train, test = cifar10(tmp_path)
    assert train.targets.tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
    assert test.targets.tolist() == [5, 6]
    assert train.inputs.shape == (10, 3, 32, 32)
    assert train.inputs[:, 0, 0, 0].tolist() == train.targets.tolist()


class Harmful:
    def __reduce__(self):
        return print, ("a forged batch ran code",)


def test_a_forged_pickle_runs_nothing(tmp_path, capsys):
    written(tmp_path, "python")
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(pickle.dumps(Harmful()))
    with pytest.raises(SystemExit, match="has no business here"):
        cifar10(tmp_path)
    assert capsys.readouterr().out == ""


def test_an_archive_cut_short_is_named(tmp_path):
    written(tmp_path, "binary tar")
    path = tmp_path / "cifar-10-binary.tar.gz"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(SystemExit, match=r"cifar-10-binary\.tar\.gz (is cut short|has no)"):
        cifar10(tmp_path)


# ---------------------------------------------------------------- image archives


def picture(colour, size=(8, 6)):
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, "PNG")
    return file.getvalue()


def zipped(path, files):
    with zipfile.ZipFile(path, "w") as file:
        for name, data in files.items():
            file.writestr(name, data)
    return path


def two_classes(count=20):
    colours = {"red": (250, 0, 0), "blue": (0, 0, 250)}
    return {f"{name}/{i}.png": picture(colour) for name, colour in colours.items() for i in range(count)}


@pytest.mark.parametrize("workload", [fruit, caltech])
def test_images_are_read_from_a_zip_without_unpacking_it(tmp_path, workload):
    zipped(tmp_path / "set.zip", two_classes())
    task = task_of(workload, "--data", tmp_path, "--side", "16", "--batch-size", "4")
    assert [path.name for path in tmp_path.iterdir()] == ["set.zip"]
    assert task.classes == 2
    assert not task.data.generated
    assert len(task.data.train) + len(task.data.test) == 40
    images, labels = task.data.train.batch(torch.arange(len(task.data.train)))
    blue, red = images[labels == 0].float(), images[labels == 1].float()
    assert blue[:, 2].mean() > 240 > 10 > blue[:, 0].mean()
    assert red[:, 0].mean() > 240


def test_a_folder_of_images_is_read_as_its_zip_is(tmp_path):
    files = two_classes(10)
    for name, data in files.items():
        (tmp_path / "there" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "there" / name).write_bytes(data)
    folder = task_of(caltech, "--data", tmp_path / "there")
    zip_file = task_of(caltech, "--data", zipped(tmp_path / "set.zip", files))
    assert isinstance(folder.data.train, Examples)
    assert torch.equal(folder.data.train.inputs, zip_file.data.train.inputs)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-60]), "not a complete zip archive"),
        (lambda path: zipped(path, {"a.txt": b"no"}), "holds no images"),
        (lambda path: zipped(path, {"only/1.png": picture((1, 1, 1))}), "one class"),
        (lambda path: zipped(path, {**two_classes(), "red/0.png": b"no"}), "red/0.png cannot be decoded"),
        (lambda path: path.unlink(), "there are no data at"),
    ],
)
def test_a_bad_archive_is_refused_with_its_fault(tmp_path, damage, said):
    path = zipped(tmp_path / "set.zip", two_classes())
    damage(path)
    with pytest.raises(SystemExit, match=said):
        task_of(fruit, "--data", path)


def test_all_copies_of_a_picture_are_on_one_side_of_the_split():
    kinds = ("", "rotated_by_45_", "vertical_flip_", "saltandpepper_", "translation_")
    files = [(PurePosixPath(f"train/c/{kind}Screen {i}.png"), 0) for i in range(200) for kind in kinds]
    train, test = split_by_base(files, seed=0)
    assert not {base_name(path) for path, _ in train} & {base_name(path) for path, _ in test}
    assert 0.1 < len(test) / len(files) < 0.3
    assert split_by_base(files, seed=0) == (train, test)


def test_steering_is_judged_by_later_time_and_knows_its_baselines(tmp_path):
    rows = "".join(f"{i:03d}.png,{0.01 * i}\n" for i in range(10))
    files = {f"{i:03d}.png": picture((i, i, i), (200, 66)) for i in range(10)}
    path = zipped(tmp_path / "s.zip", {**files, "steering.csv": "file,steering\n" + rows})
    task = task_of(steering, "--data", path, "--batch-size", "2")
    assert task.data.train.targets.tolist() == pytest.approx([0.01 * i for i in range(7)])
    assert task.data.test.targets.tolist() == pytest.approx([0.07])
    assert task.data.held_out.targets.tolist() == pytest.approx([0.08, 0.09])
    metrics = task.metrics(task.sums(task.data.test.targets, task.data.test.targets))
    assert (metrics["val_mse"], metrics["mean_angle_mse"]) == (0.0, pytest.approx(0.04**2))
    last = task.data.held_out.targets
    final = task.held_out_metrics(task.sums(last, last))
    assert (final["test_mse"], final["test_correlation"]) == (0.0, pytest.approx(1.0))
    assert final["test_mean_angle_mse"] == pytest.approx((0.05**2 + 0.06**2) / 2)
    again = task_of(steering, "--data", path, "--batch-size", "2", "--refit")
    assert again.data.train.targets.tolist() == pytest.approx([0.01 * i for i in range(8)])
    assert again.data.test.targets.tolist() == pytest.approx([0.08, 0.09])
    assert again.data.held_out is None


def test_psnr_of_untouched_noise_is_what_its_deviation_says():
    """20 log₁₀(255 / 25) = 20.17 dB."""
    task = task_of(deepwide)
    images, same = task.data.test.batch(torch.arange(250))
    draws = torch.rand(250, 4, generator=torch.Generator().manual_seed(0))
    noisy, clean = task.judging(images, same, draws)
    assert task.metrics(task.sums(noisy, clean))["val_psnr_db"] == pytest.approx(20.17, abs=0.05)


def test_a_frozen_trunk_without_weights_is_refused():
    with pytest.raises(SystemExit, match="would freeze noise"):
        task_of(fruit, "--freeze-trunk")


def test_a_frozen_trunk_from_a_file_stays_as_it_is_and_the_head_learns(tmp_path):
    from paceline_workloads.training.trainer import train
    from tests.scripts import equal_training as tiny

    zipped(tmp_path / "set.zip", two_classes())
    words = ("--data", tmp_path, "--side", "16", "--batch-size", "8", "--max-steps", "3")
    first = ("--checkpoint", tmp_path / "weights")
    given = fruit.FLAGS.parse_args([str(word) for word in (*words, *first)])
    asked = options(given, flags=fruit.FLAGS, workers=1)
    learned = train(fruit.task(asked, given), asked, tiny.alone()).plain
    given = fruit.FLAGS.parse_args(
        [str(w) for w in (*words, "--weights", tmp_path / "weights", "--freeze-trunk")]
    )
    asked = options(given, flags=fruit.FLAGS, workers=1)
    tuned = train(fruit.task(asked, given), asked, tiny.alone()).plain
    for (name, before), after in zip(learned.state_dict().items(), tuned.state_dict().values(), strict=True):
        assert torch.equal(before, after) == name.startswith("trunk"), name


def test_a_zip_is_listed_in_one_order_whatever_the_order_inside(tmp_path):
    files = two_classes(3)
    one = archive(zipped(tmp_path / "a.zip", files))
    other = archive(zipped(tmp_path / "b.zip", dict(reversed(files.items()))))
    assert one.names == other.names


# ---------------------------------------------------------------- as a user starts them


def started(*words, cwd):
    command = [sys.executable, "-m", *words, "--threads", "1"]
    return subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=120)


def test_one_process_without_a_launcher_learns_the_drawn_digits(tmp_path):
    asked = ("--epochs", "1", "--max-steps", "100", "--metrics", "m.jsonl")
    done = started("paceline_workloads.mnist", *asked, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "generated digits, not on MNIST" in done.stdout
    last = json.loads((tmp_path / "m.jsonl").read_text().splitlines()[1])
    assert last["val_accuracy"] > 0.8


def test_what_is_held_out_is_marked_once_and_sizes_are_not(monkeypatch):
    marked = {}
    monkeypatch.setattr(metrics, "mark", marked.__setitem__)
    metrics.note(None, "start", {"test_samples": 300})
    metrics.note(None, "epoch", {"val_mse": 0.1, "loss": float("nan")})
    metrics.note(None, "end", {"test_mse": 0.2, "peak_memory_bytes": 1})
    assert marked == {"val_mse": 0.1, "test_mse": 0.2}


def test_missing_data_end_with_one_sentence_and_no_traceback(tmp_path):
    done = started("paceline_workloads.mnist", "--data", str(tmp_path / "none"), cwd=tmp_path)
    assert done.returncode == 1
    assert "is not there" in done.stderr
    assert "Traceback" not in done.stderr
