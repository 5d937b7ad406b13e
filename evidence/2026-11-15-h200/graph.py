# Ran on commit 4e69a41 (2026-11-15)
"""Is a captured step the step? Weights after the same training, captured and not, alone, inside DDP, on two workers.

    python graph.py OUT_DIR

`apart` is the largest difference of any weight, `moved` how far the farthest weight went from its start. Full fp32
(no TF32), no search for the fastest kernel, so that only the order of additions differs. Two workers share the one
GPU (one_gpu.py) and exchange through NCCL and through gloo.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "src"))

from paceline_workloads import cifar_resnet18, mnist  # noqa: E402
from paceline_workloads.data.drawn_digits import drawn_digits  # noqa: E402
from paceline_workloads.data.drawn_images import drawn_patches  # noqa: E402
from paceline_workloads.data.examples import Data  # noqa: E402
from paceline_workloads.training.options import options  # noqa: E402
from paceline_workloads.training.trainer import train  # noqa: E402
from paceline_workloads.training.workers import Workers  # noqa: E402

DIGITS = ("--global-batch", "128", "--epochs", "3", "--schedule", "cosine", "--warmup-epochs", "1")
OPTIMIZERS = {
    "sgd": ("--lr", "0.05"),
    "adam": ("--optimizer", "adam", "--lr", "0.001"),
    "lars": ("--optimizer", "lars", "--lr", "2.0", "--weight-decay", "0.0001"),
    "lamb": ("--optimizer", "lamb", "--lr", "0.005"),
}


def exact():
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True


def task_of(workload, asked):
    if workload is mnist:
        data = Data(drawn_digits(3840, seed=1), drawn_digits(500, seed=2), "generated", True)
    else:
        train_part = drawn_patches(3840, classes=10, height=32, width=32, seed=1)
        data = Data(train_part, train_part.first(500), "generated", True)
    return replace(workload.task(asked, argparse.Namespace(samples=None)), data=data)


def trained(workload, words, workers):
    asked = options(workload.FLAGS.parse_args(list(words)), flags=workload.FLAGS, workers=workers.count)
    task = task_of(workload, asked)
    pupil = train(task, asked, workers)
    torch.manual_seed(asked.seed)
    start = task.network().state_dict()
    ended = {name: value.detach().cpu().clone() for name, value in pupil.plain.state_dict().items()}
    return ended, {name: value for name, value in start.items() if value.is_floating_point()}


def apart(one, other):
    return max(
        float((one[k].double() - other[k].double()).abs().max())
        for k in other
        if other[k].is_floating_point()
    )


def alone(result):
    me = Workers(0, 1, torch.device("cuda", 0))
    torch.cuda.set_device(0)
    for name, words in OPTIMIZERS.items():
        eager, start = trained(mnist, (*DIGITS, *words), me)
        again, _ = trained(mnist, (*DIGITS, *words), me)
        graph, _ = trained(mnist, (*DIGITS, *words, "--cuda-graph"), me)
        result[f"digits, {name}"] = {
            "moved": apart(eager, start),
            "eager again": apart(eager, again),
            "captured": apart(eager, graph),
        }
        print(name, result[f"digits, {name}"], flush=True)
    resnet = ("--batch-size", "128", "--epochs", "1", "--lr", "0.01")
    eager, start = trained(cifar_resnet18, resnet, me)
    graph, _ = trained(cifar_resnet18, (*resnet, "--cuda-graph"), me)
    result["resnet18, sgd"] = {"moved": apart(eager, start), "captured": apart(eager, graph)}
    print("resnet", result["resnet18, sgd"], flush=True)
    with tempfile.TemporaryDirectory() as folder:
        kept = (*DIGITS, "--lr", "0.05", "--cuda-graph", "--checkpoint", folder)
        whole, _ = trained(mnist, (*DIGITS, "--lr", "0.05", "--cuda-graph"), me)
        trained(mnist, (*kept, "--max-steps", "30"), me)  # the first of three epochs
        resumed, _ = trained(mnist, (*kept, "--resume"), me)
        result["captured, resumed after epoch 1"] = {"apart": apart(whole, resumed)}
        print("resume", result["captured, resumed after epoch 1"], flush=True)
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1, device_id=me.device)
    for name, more in (
        ("DDP", ()),
        ("DDP captured", ("--cuda-graph",)),
        ("DDP compiled and captured", ("--cuda-graph", "--compile")),
    ):
        ended, _ = trained(mnist, (*DIGITS, "--lr", "0.05", *more), me)
        plain, _ = trained(mnist, (*DIGITS, "--lr", "0.05"), me)
        result[f"{name}, NCCL, one worker"] = {"apart": apart(plain, ended)}
        print(name, result[f"{name}, NCCL, one worker"], flush=True)
    dist.destroy_process_group()


def pair(folder, backend):
    """In each of the two workers."""
    torch.cuda.set_device(0)
    dist.init_process_group(backend)
    me = Workers(dist.get_rank(), dist.get_world_size(), torch.device("cuda", 0))
    kinds = {"eager": ()} if backend == "gloo" else {"eager": (), "captured": ("--cuda-graph",)}
    for name, more in kinds.items():
        ended, _ = trained(mnist, (*DIGITS, "--lr", "0.05", *more), me)
        if me.first:
            torch.save(ended, Path(folder) / f"{backend}-{name}.pt")
    dist.destroy_process_group()


def together(result):
    me = Workers(0, 1, torch.device("cuda", 0))
    one, _ = trained(mnist, (*DIGITS, "--lr", "0.05"), me)
    for backend in ("nccl", "gloo"):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
            ended = subprocess.run(
                [*command, str(HERE / "one_gpu.py"), str(HERE / "graph.py"), folder, backend],
                env={**os.environ, "OMP_NUM_THREADS": "4"},
                capture_output=True,
                text=True,
                timeout=150,
            )
            weights = {path.stem: torch.load(path, weights_only=True) for path in Path(folder).glob("*.pt")}
            found = {name: apart(one, w) for name, w in weights.items()}
            result[f"two workers, {backend}, against one at the same global batch"] = (
                found or ended.stderr[-2000:]
            )
            print(backend, found or ended.stderr[-2000:], flush=True)


if __name__ == "__main__":
    exact()
    if len(sys.argv) > 2:
        pair(sys.argv[1], sys.argv[2])
    else:
        result = {}
        for part in (alone, together):
            try:
                part(result)
            except Exception as error:
                result[part.__name__] = f"failed: {type(error).__name__}: {error}"
                print(part.__name__, "failed", error, flush=True)
            Path(sys.argv[1], "graph.json").write_text(json.dumps(result, indent=1) + "\n")
