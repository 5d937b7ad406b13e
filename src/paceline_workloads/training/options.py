"""The command line that all workloads share."""

from __future__ import annotations

import argparse
import math
import os
from dataclasses import dataclass
from pathlib import Path

from paceline_workloads.training.learning_rate import RULES, SCHEDULES
from paceline_workloads.training.optimizers import OPTIMIZERS
from paceline_workloads.training.refuse import refuse
from paceline_workloads.training.spread import SHARDED, STRATEGIES

__all__ = ["Options", "options", "parser"]

EXCHANGES = ("fp32", "fp16", "bf16", "powersgd")


@dataclass(frozen=True, slots=True)
class Options:
    """How to train, as asked; what a workload alone understands stays in its own namespace."""

    batch_size: int
    global_batch: int | None
    accumulate: int
    epochs: int
    max_steps: int | None
    optimizer: str
    lr: float
    momentum: float
    weight_decay: float
    lr_rule: str
    base_batch: int
    warmup_epochs: float
    schedule: str
    sync_batch_norm: bool
    seed: int
    target: float | None
    data: Path | None
    device: str
    threads: int | None
    loader_workers: int
    precision: str
    channels_last: bool
    compile: bool
    cuda_graph: bool
    exchange: str
    strategy: str
    checkpoint_activations: bool
    checkpoint: Path | None
    checkpoint_every: int | None
    keep: int
    resume: bool
    metrics: Path | None
    check: bool

    def per_worker_batch(self, workers: int) -> int:
        """Samples of one worker in one backward; the global batch divided, or as given."""
        return (
            self.batch_size if self.global_batch is None else self.global_batch // (workers * self.accumulate)
        )

    def whole_batch(self, workers: int) -> int:
        """Samples of all workers in one step."""
        return self.per_worker_batch(workers) * workers * self.accumulate


def parser(description: str, **defaults: object) -> argparse.ArgumentParser:
    """The shared flags, with the defaults of one workload; it may add its own."""
    flags = argparse.ArgumentParser(description=description)
    add = flags.add_argument
    add("--batch-size", type=int, default=64, help="samples per worker and backward")
    add("--global-batch", type=int, help="samples of all workers per step, instead of --batch-size")
    add("--accumulate", type=int, default=1, help="backwards per step; gradients are exchanged at the last")
    add("--epochs", type=int, default=3)
    add("--max-steps", type=int, help="stop after so many steps")
    add("--optimizer", choices=OPTIMIZERS, default="sgd")
    add("--lr", type=float, default=0.05, help="learning rate, at the base batch")
    add("--momentum", type=float, default=0.9)
    add("--weight-decay", type=float, default=0.0)
    add("--lr-rule", choices=RULES, default="none", help="how the rate follows the global batch")
    add("--base-batch", type=int, help="the global batch that --lr is for  [default: the default batch]")
    add("--warmup-epochs", type=float, default=0.0, help="epochs over which the rate rises from 0")
    add("--schedule", choices=SCHEDULES, default="constant")
    add("--sync-batch-norm", action="store_true", help="batch statistics over all workers")
    add("--seed", type=int, default=0)
    add("--target", type=float, help="stop when the goal (accuracy, or the workload's own) is this good")
    add("--data", type=Path, default=os.environ.get("PACELINE_DATA"), help="folder or archive with real data")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("--threads", type=int, help="CPU threads of each worker")
    add("--loader-workers", type=int, default=0, help="processes that decode ahead, for data not in memory")
    add("--precision", choices=("fp32", "bf16"), default="fp32")
    add("--channels-last", action="store_true")
    add("--compile", action="store_true", help="torch.compile the network")
    add("--cuda-graph", action="store_true", help="capture the step once, replay it: for small batches")
    add("--exchange", choices=EXCHANGES, default="fp32", help="how gradients travel between workers")
    add("--strategy", choices=STRATEGIES, default="ddp", help="how the network is spread over workers")
    add(
        "--checkpoint-activations",
        action="store_true",
        help="less memory: compute activations again in backward",
    )
    add("--checkpoint", type=Path, help="folder for a checkpoint after every epoch")
    add("--checkpoint-every", type=int, metavar="STEPS", help="and inside epochs, after so many steps each")
    add("--keep", type=int, default=2, help="checkpoints kept")
    add("--resume", action="store_true", help="go on from the newest checkpoint")
    add("--metrics", type=Path, help="file for JSON lines, one per epoch")
    add("--check", action="store_true", help="check data and options, print them as JSON, train nothing")
    flags.set_defaults(**defaults)
    return flags


def options(given: argparse.Namespace, *, flags: argparse.ArgumentParser, workers: int) -> Options:
    """Checked Options; refuses what cannot be done before anything is loaded or started."""
    values = {name: getattr(given, name) for name in Options.__slots__}
    values["base_batch"] = given.base_batch or flags.get_default("batch_size")
    values["data"] = None if given.data is None else Path(given.data)
    for name in ("batch_size", "accumulate", "epochs", "keep", "base_batch"):
        if values[name] < 1:
            refuse(f"--{name.replace('_', '-')} {values[name]} is less than 1", hint="give at least 1")
    if not (math.isfinite(given.lr) and given.lr > 0):
        refuse(f"--lr {given.lr} is not a positive number", hint=f"--lr {flags.get_default('lr')}")
    parts = workers * given.accumulate
    if given.global_batch is not None and (given.global_batch < parts or given.global_batch % parts):
        refuse(
            f"--global-batch {given.global_batch} does not divide among {workers} workers × "
            f"{given.accumulate} backwards",
            hint=f"--global-batch {max(1, round(given.global_batch / parts)) * parts}",
        )
    if given.checkpoint_every is not None and (given.checkpoint_every < 1 or given.checkpoint is None):
        refuse(
            f"--checkpoint-every {given.checkpoint_every} needs at least 1 step, and to know where",
            hint="--checkpoint FOLDER --checkpoint-every 500",
        )
    if given.resume and given.checkpoint is None:
        refuse("--resume needs to know from where", hint="--checkpoint FOLDER --resume")
    whole = given.global_batch or given.batch_size * parts
    if given.lr_rule == "adascale" and whole != values["base_batch"]:
        if parts < 2:
            refuse(
                "--lr-rule adascale compares parts of a step, and one worker with one backward has one part",
                hint="2 workers, or --accumulate 2",
            )
        if given.cuda_graph:
            refuse(
                "--lr-rule adascale reads every step, a captured one cannot be", hint="leave out --cuda-graph"
            )
    if given.cuda_graph and given.accumulate > 1:
        refuse("--cuda-graph captures one backward per step", hint="leave out --accumulate")
    _check_strategy(given, workers=workers)
    return Options(**values)


def _check_strategy(given: argparse.Namespace, *, workers: int) -> None:
    """What needs every gradient whole, or every weight as it was laid, does not go with one that is cut into parts."""
    strategy = given.strategy
    if strategy == "hsdp" and workers > 1 and workers % 2:
        refuse(
            f"--strategy hsdp needs groups of one size, and there are {workers} workers",
            hint="--strategy fsdp",
        )
    if strategy != "ddp" and given.cuda_graph:
        refuse(f"--cuda-graph captures a step of ddp, not of {strategy}", hint="leave out --cuda-graph")
    if strategy not in SHARDED:
        return
    cuts = {
        f"--exchange {given.exchange}": given.exchange != "fp32",
        "--lr-rule adascale": given.lr_rule == "adascale",
        "--channels-last": given.channels_last,
    }
    for flag in (flag for flag, asked in cuts.items() if asked):
        refuse(
            f"{flag} needs whole weights and gradients, and --strategy {strategy} cuts them",
            hint="--strategy ddp",
        )
