"""Our own workloads are ordinary scripts that train."""

import gzip
import subprocess
import sys

import pytest
import torch

from paceline.launch.interpreter import workload_names
from paceline_workloads.mnist import drawn_digits, idx_digits
from tests.desk import environment


def test_workloads_are_found_without_importing_them():
    assert "mnist" in workload_names()
    assert all(not name.startswith("_") for name in workload_names())


def test_drawn_digits_are_the_same_for_the_same_seed_and_all_ten_occur():
    images, labels = drawn_digits(200, seed=3).tensors
    again, _ = drawn_digits(200, seed=3).tensors
    other, _ = drawn_digits(200, seed=4).tensors
    assert images.shape == (200, 1, 28, 28)
    assert torch.equal(images, again)
    assert not torch.equal(images, other)
    assert set(labels.tolist()) == set(range(10))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_published_files_are_read_plain_or_gzipped(tmp_path, suffix):
    two, side = (0, 0, 0, 2), (0, 0, 0, 28)
    files = {
        "train-images-idx3-ubyte": bytes([0, 0, 8, 3, *two, *side, *side])
        + bytes(783)
        + b"\xff"
        + bytes(784),
        "train-labels-idx1-ubyte": bytes([0, 0, 8, 1, *two, 7, 3]),
    }
    for name, data in files.items():
        (tmp_path / f"{name}{suffix}").write_bytes(gzip.compress(data) if suffix else data)
    images, labels = idx_digits(tmp_path, "train").tensors
    assert labels.tolist() == [7, 3]
    assert images.shape == (2, 1, 28, 28)
    assert images[0, 0, 27, 27] > 2.8  # white, normalised
    assert images[1].max() < 0  # black


def test_missing_files_are_named(tmp_path):
    with pytest.raises(SystemExit, match="train-images-idx3-ubyte is not there"):
        idx_digits(tmp_path, "train")


def test_one_process_without_a_launcher_learns_the_drawn_digits(tmp_path):
    command = [sys.executable, "-m", "paceline_workloads.mnist", "--epochs", "1", "--threads", "1"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    )
    assert "generated digits, not on MNIST" in done.stdout
    accuracy = float(done.stdout.rpartition("accuracy ")[2])
    assert accuracy > 0.8
