"""The options of `paceline study` and `paceline plan`: one record, which typer reads and the verbs pass on.

`plan` takes what says which settings there are; `study` also takes how they are run. SECTIONS is how `--help` groups
them all.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from paceline.cli.gather import Join, JoinWait
from paceline.cli.options.complete import workloads
from paceline.cli.options.sections import print_all

__all__ = ["FOLDED", "SECTIONS", "Metric", "PlanOptions", "StudyOptions", "with_options_of"]

Metric = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="A marked name, or a pattern of what is printed: 'val_acc=([0-9.]+)'."),
]


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """What `paceline plan` was asked for, as it was typed."""

    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET [-- SCRIPT ARGS]",
            help="A script, a workload, a study.toml or a study folder.",
            autocompletion=workloads,
        ),
    ] = None
    help_all: Annotated[
        bool,
        typer.Option("--help-all", is_eager=True, callback=print_all, help="Show all options and exit."),
    ] = False
    module: Annotated[
        str | None, typer.Option("--module", "-m", metavar="MODULE", help="Study a module.")
    ] = None
    workers: Annotated[
        str | None, typer.Option(metavar="COUNTS", help="Worker counts: 1,2,4 or 1..8.  [default: 1,2]")
    ] = None
    nodes: Annotated[
        str | None, typer.Option(metavar="COUNTS", help="Node counts, instead of --workers: 1,2,4.")
    ] = None
    workers_per_node: Annotated[
        str | None, typer.Option(metavar="COUNTS", help="Workers on every node: 2 or 1,2.  [default: 1]")
    ] = None
    per_worker_batch: Annotated[
        str | None,
        typer.Option(metavar="SIZES", help="Per-worker batches, fixed over counts (weak scaling)."),
    ] = None
    global_batch: Annotated[
        str | None,
        typer.Option(metavar="SIZES", help="Global batches, divided among workers (strong scaling)."),
    ] = None
    scaling: Annotated[str | None, typer.Option(metavar="MODE", help="weak, strong or both.")] = None
    backend: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Backends, e.g. gloo,nccl.  [default: the script's own]"),
    ] = None
    vary: Annotated[
        list[str] | None, typer.Option(metavar="KEY=V1,V2", help="Vary a flag of the script.")
    ] = None
    batch_flag: Annotated[
        str | None, typer.Option(metavar="FLAG", help="The script's flag for the per-worker batch.")
    ] = None
    lr_flag: Annotated[
        str | None, typer.Option(metavar="FLAG", help="The script's flag for the learning rate.")
    ] = None
    lr: Annotated[
        float | None, typer.Option(metavar="RATE", help="Learning rate, for {lr} or --lr-flag.")
    ] = None
    steps: Annotated[
        int | None, typer.Option(metavar="N", help="Measured steps of a run.  [default: 40]")
    ] = None
    warmup: Annotated[
        int | None, typer.Option(metavar="N", help="Steps before measuring.  [default: 10]")
    ] = None
    repeats: Annotated[
        int | None, typer.Option(metavar="N", help="Most runs of every setting.  [default: 5]")
    ] = None
    threads: Annotated[
        int | None,
        typer.Option(metavar="N", help="CPU threads of a worker.  [default: its share]"),
    ] = None
    no_flops: Annotated[
        bool, typer.Option("--no-flops", help="Count no floating-point operations of a step.")
    ] = False
    python: Annotated[
        str | None, typer.Option(metavar="PATH", help="The Python that has the script's torch.")
    ] = None
    launcher: Annotated[
        str | None,
        typer.Option(metavar="WHO", help="Who starts workers: torchrun, accelerate, deepspeed, script."),
    ] = None
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILES", help="Configurations of accelerate or deepspeed to compare: a.yaml,b.yaml."
        ),
    ] = None
    vary_file: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE:KEY=V1,V2", help="Vary one value of a yaml, toml or json file, in copies of it."
        ),
    ] = None
    to_accuracy: Annotated[
        float | None,
        typer.Option(metavar="X", help="Train every configuration until its metric is X; compare by time."),
    ] = None
    lr_rule: Annotated[
        str | None,
        typer.Option(
            metavar="RULES", help="With a target: none,linear,sqrt,adascale: rates for a larger batch."
        ),
    ] = None
    warmup_epochs: Annotated[
        str | None, typer.Option(metavar="EPOCHS", help="With a target: epochs of warm-up, e.g. 0,5.")
    ] = None
    seeds: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Trainings of every configuration.  [default: 3]")
    ] = None
    epochs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Most passes over the data, of our workloads.")
    ] = None
    metric: Metric = None
    seed_flag: Annotated[str | None, typer.Option(metavar="FLAG", help="The script's flag for its seed.")] = (
        None
    )
    memory_limit: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Memory of every worker beyond torch itself: 2GB."),
    ] = None
    find_batch: Annotated[
        bool, typer.Option("--find-batch", help="Find the largest per-worker batch that fits into memory.")
    ] = False
    try_anyway: Annotated[
        bool, typer.Option("--try-anyway", help="Run also what surely does not fit into memory.")
    ] = False
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The study folder.  [default: ./paceline-NAME]")
    ] = None
    json: Annotated[bool, typer.Option("--json", help="Print the analysis as JSON, and nothing else.")] = (
        False
    )


@dataclass(frozen=True, kw_only=True)
class StudyOptions(PlanOptions):
    """What `paceline study` was asked for, as it was typed."""

    tight: Annotated[
        float | None,
        typer.Option(
            metavar="RATIO", help="A setting is finished below this half-interval.  [default: 0.03]"
        ),
    ] = None
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="Longest run: 90s, 15min.  [default: 10min]")
    ] = None
    hang: Annotated[
        str | None, typer.Option(metavar="TIME", help="Longest time without a step.  [default: 60s]")
    ] = None
    budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Most workers × seconds of the study: 3600, 2h."),
    ] = None
    lower_is_better: Annotated[
        bool, typer.Option("--lower-is-better", help="The metric falls as it gets better.")
    ] = False
    on: Annotated[str | None, typer.Option(help="Where: here or slurm.  [default: here]")] = None
    partition: Annotated[str | None, typer.Option(help="Slurm: partition to queue in.")] = None
    account: Annotated[str | None, typer.Option(help="Slurm: account to charge.")] = None
    time: Annotated[str | None, typer.Option(help="Slurm: time limit of the job, 30min or 2h.")] = None
    gres: Annotated[str | None, typer.Option(help="Slurm: resources of every node, gpu:4.")] = None
    constraint: Annotated[str | None, typer.Option(help="Slurm: features that nodes must have.")] = None
    exclusive: Annotated[
        bool | None, typer.Option("--exclusive", help="Slurm: nodes that no other job uses.")
    ] = None
    load_module: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Slurm: environment module to load; may be repeated."),
    ] = None
    prologue: Annotated[
        list[str] | None,
        typer.Option(metavar="LINE", help="Slurm: line of shell before the study; may be repeated."),
    ] = None
    container: Annotated[
        str | None, typer.Option(help="Slurm: runs in a container, a .sif file or an image for Pyxis.")
    ] = None
    sbatch_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Slurm: any further option of sbatch.")
    ] = None
    array: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Slurm: a job array, N tasks at once; 0: one job.  [default: what suits]"
        ),
    ] = None
    emit: Annotated[
        str | None, typer.Option(metavar="sbatch", help="Slurm: write and print the script; submit nothing.")
    ] = None
    join: Join = None
    join_wait: JoinWait = None
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Repeat runs that failed.")] = False
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Go on where the first run dies before its first step.")
    ] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would run and cost, and stop.")] = (
        False
    )


Options = TypeVar("Options", bound=PlanOptions)


def with_options_of(
    record: type[Options],
) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """A verb that is given one record: typer reads the fields of `record` where it reads parameters elsewhere."""
    hints = get_type_hints(record, include_extras=True)
    parameters = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(record)
    ]

    def decorated(verb: Callable[[Options], None]) -> Callable[..., None]:
        @wraps(verb)
        def typed(**options: Any) -> None:
            verb(record(**options))

        typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what inspect looks for
        typed.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return typed

    return decorated


# shown by --help-all
FOLDED = (
    "Memory",
    "Launchers and their files",
    "Training to an accuracy",
    "On several nodes",
    "On Slurm",
)  # shown by --help-all
SECTIONS = {
    "What is varied": (
        "workers", "per_worker_batch", "global_batch", "scaling", "vary", "backend",
        "batch_flag", "lr_flag", "lr",
    ),
    "How it is measured": (
        "steps", "warmup", "repeats", "tight", "timeout", "hang", "budget", "threads", "no_flops",
    ),
    "The script": ("module", "python"),
    "Output": ("out", "retry_failed", "keep_going", "dry_run", "json", "help", "help_all"),
    "Memory": ("memory_limit", "find_batch", "try_anyway"),
    "Launchers and their files": ("launcher", "config", "vary_file"),
    "Training to an accuracy": (
        "to_accuracy", "lr_rule", "warmup_epochs", "seeds", "epochs", "metric", "lower_is_better", "seed_flag",
    ),
    "On several nodes": ("nodes", "workers_per_node", "join", "join_wait"),
    "On Slurm": (
        "on", "partition", "account", "time", "gres", "constraint", "exclusive", "array", "load_module", "prologue",
        "container", "sbatch_option", "emit",
    ),
}  # fmt: skip
