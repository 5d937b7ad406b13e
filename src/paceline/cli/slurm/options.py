"""The Allocation that the options of `paceline study` ask of Slurm, and the one that this desk may lie in."""

from __future__ import annotations

import os
import re
from dataclasses import replace

from paceline.cli.options.study import StudyOptions
from paceline.core import units
from paceline.core.errors import UsageError
from paceline.launch.processes import cores
from paceline.records import Allocation, Study
from paceline.slurm.script import checked_allocation

__all__ = ["allocated_cores", "cores_for", "inside_allocation", "with_allocation"]


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


def with_allocation(study: Study, options: StudyOptions) -> Study:
    """The study with what is asked of Slurm now, on top of what its study.toml asks."""
    given = {
        "partition": options.partition,
        "account": options.account,
        "time_s": None if options.time is None else units.duration(options.time),
        "gres": options.gres,
        "constraint": options.constraint,
        "exclusive": options.exclusive,
        "modules": tuple(options.load_module) if options.load_module else None,
        "prologue": tuple(options.prologue) if options.prologue else None,
        "container": options.container,
        "options": tuple(options.sbatch_option) if options.sbatch_option else None,
        "array": options.array,
    }
    given = {name: value for name, value in given.items() if value is not None}
    on = options.on
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
