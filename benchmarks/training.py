"""How fast the trainer is, side by side with other loops on the same network and data, in one run.

    python benchmarks/training.py cuda               cifar-resnet18 on one device: images/s and peak memory by batch
    python benchmarks/training.py cuda --ddp         the same inside DistributedDataParallel (NCCL, one worker)
    torchrun --nproc-per-node 2 benchmarks/training.py cpu     the digits' network, by four loops

Every figure is the best of five rounds of the same steps, after warm-up; candidates take turns, to and fro.
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the name everybody uses
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from paceline_workloads import cifar_resnet18, mnist
from paceline_workloads.data.drawn_digits import drawn_digits
from paceline_workloads.data.drawn_images import drawn_patches
from paceline_workloads.data.examples import Data, WithDraws
from paceline_workloads.networks.convolutional import DigitNetwork
from paceline_workloads.training.cuda_graph import CapturedStep
from paceline_workloads.training.learner import learn, learner
from paceline_workloads.training.options import Options, options
from paceline_workloads.training.task import Task
from paceline_workloads.training.workers import Workers, joined

ROUNDS = 5
BATCH = 64


def main() -> None:
    chosen = argparse.ArgumentParser(description="Measure the trainer.")
    chosen.add_argument("where", choices=("cpu", "cuda"))
    chosen.add_argument("--steps", type=int, default=100)
    chosen.add_argument("--ddp", action="store_true")
    given = chosen.parse_args()
    if given.where == "cuda":
        on_cuda(given.steps, ddp=given.ddp)
    else:
        on_cpu(given.steps)


# ---------------------------------------------------------------- one CUDA device


def on_cuda(steps: int, *, ddp: bool) -> None:
    """cifar-resnet18 with augmentation, data on the device: eager and captured, fp32 and bf16."""
    train = drawn_patches(50_000, classes=10, height=32, width=32, seed=1)
    data = Data(train, train.first(1000), "generated", True)
    kinds = {
        "eager fp32": (),
        "eager bf16": ("--precision", "bf16", "--channels-last"),
        "graph bf16": ("--precision", "bf16", "--channels-last", "--cuda-graph"),
        "compiled": ("--precision", "bf16", "--channels-last", "--cuda-graph", "--compile"),
    }
    with joined("cuda") as workers:
        name = torch.cuda.get_device_name(workers.device)
        if ddp:
            store = dist.HashStore()
            dist.init_process_group("nccl", store=store, rank=0, world_size=1, device_id=workers.device)
        wrapped = " inside DDP" if ddp else ""
        print(f"{name}, torch {torch.__version__}, cifar-resnet18{wrapped}, {steps} steps, best of {ROUNDS}")
        print(f"{'':12} {'batch':>6} {'images/s':>10} {'peak MiB':>9}")
        for batch in (32, 128, 512):
            for kind, flags in kinds.items():
                asked = _asked(cifar_resnet18.FLAGS, "--batch-size", str(batch), *flags)
                task = _with_data(cifar_resnet18.task, asked, data)
                torch.cuda.reset_peak_memory_stats()
                per_s = _cuda_rate(task, asked, workers, steps=steps)
                peak = torch.cuda.max_memory_allocated() / 2**20
                print(f"{kind:12} {batch:6} {per_s:10,.0f} {peak:9,.0f}", flush=True)
        if ddp:
            dist.destroy_process_group()


def _cuda_rate(task: Task, asked: Options, workers: Workers, *, steps: int) -> float:
    pupil = learner(task, asked, workers)
    pupil.network.train()
    captured = CapturedStep(pupil) if asked.cuda_graph else None
    part = task.data.train.to(workers.device)  # type: ignore[attr-defined]
    loader = _loader(
        WithDraws(part, draws=task.draws, seed=0, device=workers.device), asked.batch_size, workers
    )
    batches = iter(loader)

    def some(count: int) -> None:
        nonlocal batches
        for _ in range(count):
            batch = next(batches, None)
            if batch is None:
                batches = iter(loader)
                batch = next(batches)
            if captured is None:
                learn(pupil, [batch])
            else:
                captured(batch)
        torch.cuda.synchronize()

    some(30)
    return asked.batch_size * steps / min(_seconds(lambda: some(steps)) for _ in range(ROUNDS))


# ---------------------------------------------------------------- gloo workers on CPU


def on_cpu(steps: int) -> None:
    """The same steps of the same network on the same digits, by four loops in turn; samples/s of all workers."""
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")
    with joined("cpu") as workers:
        digits = drawn_digits(BATCH * workers.count * steps, seed=1)
        images = digits.inputs.float() / 255 - 0.45
        loops: dict[str, Callable[[], float]] = {
            "plain DDP": lambda: _plain(TensorDataset(images, digits.targets), workers),
            "Accelerate": lambda: _accelerate(TensorDataset(images, digits.targets), workers),
            "Lightning": lambda: _lightning(TensorDataset(images, digits.targets), workers),
            "paceline": lambda: _ours(Data(digits, digits.first(250), "generated", True), workers),
        }
        best = dict.fromkeys(loops, float("inf"))
        for turn in range(ROUNDS):
            for name in list(loops)[:: -1 if turn % 2 else 1]:  # to and fro, so that drift favours nobody
                dist.barrier()
                best[name] = min(best[name], loops[name]())
        workers.say(f"torch {torch.__version__}, {workers.count} gloo workers × {torch.get_num_threads()} threads, "
                    f"batch {BATCH} per worker, {steps} steps, best of {ROUNDS}")  # fmt: skip
        for name, seconds in best.items():
            workers.say(f"{name:12} {BATCH * workers.count * steps / seconds:8,.0f} samples/s")


def _plain(data: TensorDataset, workers: Workers) -> float:
    """What most people write."""
    torch.manual_seed(0)
    network = DistributedDataParallel(DigitNetwork())
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    loader = _loader(data, BATCH, workers)

    def epoch() -> None:
        for images, labels in loader:
            optimizer.zero_grad()
            F.cross_entropy(network(images), labels).backward()
            optimizer.step()

    return _seconds(epoch)


def _accelerate(data: TensorDataset, workers: Workers) -> float:
    from accelerate import Accelerator

    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    network, optimizer, loader = accelerator.prepare(
        plain := DigitNetwork(),
        torch.optim.SGD(plain.parameters(), lr=0.05, momentum=0.9),
        DataLoader(data, batch_size=BATCH, shuffle=True, drop_last=True),
    )

    def epoch() -> None:
        for images, labels in loader:
            optimizer.zero_grad()
            accelerator.backward(F.cross_entropy(network(images), labels))
            optimizer.step()

    return _seconds(epoch)


def _lightning(data: TensorDataset, workers: Workers) -> float:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network = DigitNetwork()

        def training_step(self, batch: tuple[Tensor, Tensor], number: int) -> Tensor:
            return F.cross_entropy(self.network(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)

        def on_train_epoch_start(self) -> None:
            self.begun = perf_counter()

        def on_train_epoch_end(self) -> None:
            self.took = perf_counter() - self.begun

    torch.manual_seed(0)
    module = Module()
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        devices=workers.count,
        strategy="ddp",
        enable_model_summary=False,
        **quiet,
    )
    trainer.fit(module, DataLoader(data, batch_size=BATCH, shuffle=True, drop_last=True))
    return module.took


def _ours(data: Data, workers: Workers) -> float:
    asked = _asked(mnist.FLAGS, "--batch-size", str(BATCH))
    task = _with_data(mnist.task, asked, data)
    pupil = learner(task, asked, workers)
    loader = _loader(WithDraws(data.train, draws=0, seed=0, device=workers.device), BATCH, workers)

    def epoch() -> None:
        for batch in loader:
            learn(pupil, [batch])

    return _seconds(epoch)


# ---------------------------------------------------------------- shared


def _asked(flags: argparse.ArgumentParser, *words: str) -> Options:
    return options(flags.parse_args(words), flags=flags, workers=1)


def _with_data(task_of: Callable[..., Task], asked: Options, data: Data) -> Task:
    return replace(task_of(asked, argparse.Namespace(samples=None)), data=data)


def _loader(data: torch.utils.data.Dataset[object], batch: int, workers: Workers) -> DataLoader[object]:
    sampler = DistributedSampler(data, num_replicas=workers.count, rank=workers.rank, drop_last=True)
    whole = (lambda batch: batch) if isinstance(data, WithDraws) else None
    return DataLoader(data, batch_size=batch, sampler=sampler, drop_last=True, collate_fn=whole)


def _seconds(work: Callable[[], None]) -> float:
    begun = perf_counter()
    work()
    return perf_counter() - begun


if __name__ == "__main__":
    sys.exit(main())
