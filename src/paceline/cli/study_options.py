"""The options of `paceline study` and `paceline plan` that say what is varied and how it is measured.

Those of a training to a target are in goal.py, of Slurm in slurm_options.py, of other nodes in gather.py. SECTIONS
is how `--help` groups them all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paceline.cli.complete import workloads

__all__ = [
    "SECTIONS", "Backend", "Batch", "BatchFlag", "Budget", "DryRun", "Hang", "Json", "Lr", "LrFlag", "Module",
    "Nodes", "Out", "PerNode", "Python", "Repeats", "RetryFailed", "ScalingText", "StartText", "Steps", "Threads",
    "Tight", "Timeout", "Vary", "Warmup", "Whole", "Words", "Workers",
]  # fmt: skip

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TARGET [-- SCRIPT ARGS]",
        help="A script, a workload, a study.toml or a study folder.",
        autocompletion=workloads,
    ),
]
Module = Annotated[str | None, typer.Option("--module", "-m", metavar="MODULE", help="Study a module.")]
Python = Annotated[str | None, typer.Option(metavar="PATH", help="The Python that has the script's torch.")]
StartText = Annotated[
    str | None, typer.Option("--start", metavar="WHO", help="Who starts workers: torchrun or script.")
]

Workers = Annotated[
    str | None, typer.Option(metavar="COUNTS", help="Worker counts: 1,2,4 or 1..8.  [default: 1,2]")
]
Nodes = Annotated[
    str | None, typer.Option(metavar="COUNTS", help="Node counts, instead of --workers: 1,2,4.")
]
PerNode = Annotated[
    str | None, typer.Option(metavar="COUNTS", help="Workers on every node: 2 or 1,2.  [default: 1]")
]
Batch = Annotated[
    str | None, typer.Option(metavar="SIZES", help="Per-worker batches, fixed over counts (weak scaling).")
]
Whole = Annotated[
    str | None, typer.Option(metavar="SIZES", help="Global batches, divided among workers (strong scaling).")
]
ScalingText = Annotated[str | None, typer.Option(metavar="MODE", help="weak, strong or both.")]
Backend = Annotated[
    str | None, typer.Option(metavar="NAMES", help="Backends, e.g. gloo,nccl.  [default: the script's own]")
]
Vary = Annotated[list[str] | None, typer.Option(metavar="KEY=V1,V2", help="Vary a flag of the script.")]
BatchFlag = Annotated[
    str | None, typer.Option(metavar="FLAG", help="The script's flag for the per-worker batch.")
]
LrFlag = Annotated[str | None, typer.Option(metavar="FLAG", help="The script's flag for the learning rate.")]
Lr = Annotated[float | None, typer.Option(metavar="RATE", help="Learning rate, for {lr} or --lr-flag.")]

Steps = Annotated[int | None, typer.Option(metavar="N", help="Measured steps of a trial.  [default: 40]")]
Warmup = Annotated[int | None, typer.Option(metavar="N", help="Steps before measuring.  [default: 10]")]
Repeats = Annotated[int | None, typer.Option(metavar="N", help="Most launches of every point.  [default: 5]")]
Tight = Annotated[
    float | None,
    typer.Option(metavar="RATIO", help="A point is finished below this half-interval.  [default: 0.03]"),
]
Timeout = Annotated[
    str | None, typer.Option(metavar="TIME", help="Longest trial: 90s, 15min.  [default: 10min]")
]
Hang = Annotated[
    str | None, typer.Option(metavar="TIME", help="Longest time without a step.  [default: 60s]")
]
Budget = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Most device seconds (workers × seconds) for the whole study: 3600, 2h."
    ),
]
Threads = Annotated[
    int | None, typer.Option(metavar="N", help="CPU threads per worker.  [default: cores / most workers]")
]

Out = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="The study folder.  [default: ./paceline-NAME]")
]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Repeat trials that failed.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would run and cost, and stop.")]
Json = Annotated[bool, typer.Option("--json", help="Print the analysis as JSON, and nothing else.")]

SECTIONS = {
    "What is varied": (
        "workers", "per_worker_batch", "global_batch", "scaling", "vary", "backend", "batch_flag", "lr_flag", "lr",
    ),
    "How it is measured": (
        "steps", "warmup", "repeats", "tight", "timeout", "hang", "budget", "threads", "memory_limit",
    ),
    "The script": ("module", "python", "start"),
    "Output": ("out", "retry_failed", "dry_run", "json", "help"),
    "Training to an accuracy": (
        "to_accuracy", "lr_rule", "warmup_epochs", "seeds", "epochs", "metric", "lower_is_better", "seed_flag",
    ),
    "On several nodes": ("nodes", "workers_per_node", "join", "join_wait"),
    "On Slurm": (
        "on", "partition", "account", "time", "gres", "constraint", "exclusive", "array", "load_module", "prologue",
        "container", "sbatch_option", "emit",
    ),
}  # fmt: skip
