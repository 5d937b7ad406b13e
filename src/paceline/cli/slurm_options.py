"""The options of `paceline study` that concern Slurm, and the Allocation that they ask for."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Annotated

import typer

from paceline import units
from paceline.errors import UsageError
from paceline.launch.processes import cores
from paceline.records import Allocation, Study
from paceline.slurm import checked_allocation

__all__ = [
    "Account",
    "Array",
    "Constraint",
    "Container",
    "Emit",
    "Exclusive",
    "Gres",
    "LoadModule",
    "On",
    "Partition",
    "Prologue",
    "SbatchOption",
    "Time",
    "allocated_cores",
    "cores_for",
    "inside_allocation",
    "with_allocation",
]

On = Annotated[str | None, typer.Option(help="Where: here or slurm.  [default: here]")]
Partition = Annotated[str | None, typer.Option(help="Slurm: partition to queue in.")]
Account = Annotated[str | None, typer.Option(help="Slurm: account to charge.")]
Time = Annotated[str | None, typer.Option(help="Slurm: time limit of the job, 30min or 2h.")]
Gres = Annotated[str | None, typer.Option(help="Slurm: resources of every node, gpu:4.")]
Constraint = Annotated[str | None, typer.Option(help="Slurm: features that nodes must have.")]
Exclusive = Annotated[bool | None, typer.Option("--exclusive", help="Slurm: nodes that no other job uses.")]
LoadModule = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Slurm: environment module to load; may be repeated.")
]
Prologue = Annotated[
    list[str] | None,
    typer.Option(metavar="LINE", help="Slurm: line of shell before the study; may be repeated."),
]
Container = Annotated[
    str | None, typer.Option(help="Slurm: trials in a container, a .sif file or an image for Pyxis.")
]
SbatchOption = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="Slurm: any further option of sbatch.")
]
Array = Annotated[
    int | None,
    typer.Option(
        min=0, metavar="N", help="Slurm: a job array, N tasks at once; 0: one job.  [default: what suits]"
    ),
]
Emit = Annotated[
    str | None,
    typer.Option(metavar="sbatch", help="Slurm: write and print the script; submit nothing."),
]


def inside_allocation() -> bool:
    """Whether this desk already lies in an allocation, where trials can be started."""
    return bool(os.environ.get("SLURM_JOB_ID") and os.environ.get("SLURM_JOB_NODELIST"))


def cores_for(study: Study) -> int:
    """The cores of a node that its workers share: this machine's, or those that Slurm gives and is asked for."""
    if study.slurm is None:
        return cores()
    if not inside_allocation():
        return max(study.workers_per_node or study.workers)
    return allocated_cores()


def allocated_cores() -> int:
    """The cores of a node of this allocation, the least of all; those of this machine where Slurm does not say."""
    given = os.environ.get("SLURM_CPUS_ON_NODE") or os.environ.get("SLURM_JOB_CPUS_PER_NODE", "")
    least = [int(count) for count in re.findall(r"(\d+)(?:\(x\d+\))?", given)]  # "8(x2),4"
    return min(least, default=cores())


def with_allocation(
    study: Study,
    *,
    on: str | None,
    partition: str | None,
    account: str | None,
    time: str | None,
    gres: str | None,
    constraint: str | None,
    exclusive: bool | None,
    modules: list[str] | None,
    prologue: list[str] | None,
    container: str | None,
    options: list[str] | None,
    array: int | None,
) -> Study:
    """The study with what is asked of Slurm now, on top of what its study.toml asks."""
    given = {
        "partition": partition,
        "account": account,
        "time_s": None if time is None else units.duration(time),
        "gres": gres,
        "constraint": constraint,
        "exclusive": exclusive,
        "modules": tuple(modules) if modules else None,
        "prologue": tuple(prologue) if prologue else None,
        "container": container,
        "options": tuple(options) if options else None,
        "array": array,
    }
    given = {name: value for name, value in given.items() if value is not None}
    if on not in (None, "here", "slurm"):
        raise UsageError(f"--on {on!r} is not known", hint="--on here or --on slurm")
    if on == "here" or (on is None and study.slurm is None):
        if given:
            flags = ", ".join(f"--{name.removesuffix('_s').replace('_', '-')}" for name in given)
            say = "says" if len(given) == 1 else "say"
            raise UsageError(f"{flags} {say} something to Slurm, which is not asked", hint="add --on slurm")
        return replace(study, slurm=None)
    held = study.slurm or Allocation()
    return replace(study, slurm=checked_allocation(replace(held, **given)))  # type: ignore[arg-type]
