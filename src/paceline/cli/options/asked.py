"""What was typed, as a Study and the folder that it lies in, checked; nothing is made yet."""

from __future__ import annotations

import os

from paceline.cli.measure import python_of
from paceline.cli.options.goal import checked_goal, goal_fields
from paceline.cli.options.request import request, target_of
from paceline.cli.options.study import StudyOptions
from paceline.cli.slurm.options import with_allocation
from paceline.core import units
from paceline.core.errors import UsageError
from paceline.launch.interpreter import interpreter
from paceline.launch.launchers import refuse_unusable_files
from paceline.plan import config
from paceline.plan.config_files import CONFIG, vary_file
from paceline.records import Study
from paceline.store.paths import StudyFolder

__all__ = ["asked_study"]

# of a run that is to fit or not, unless asked otherwise: memory is looked at in steps 4 and 5
_SEARCH_STEPS, _SEARCH_WARMUP, _SEARCH_FROM = 10, 5, 8


def asked_study(options: StudyOptions) -> tuple[StudyFolder, Study]:
    """The folder and the Study that these options ask for: a new one, or the folder's own, widened."""
    fields = _fields(options) | goal_fields(options)
    flags = {
        "batch_flag": options.batch_flag, "lr_flag": options.lr_flag, "seed_flag": options.seed_flag,
    }  # fmt: skip
    folder, wanted = request(
        target_of(options.words or [], module=options.module, start=options.launcher),
        {name: value for name, value in fields.items() if value is not None},
        out=options.out,
        flags={name: flag for name, flag in flags.items() if flag is not None},
    )
    refuse_unusable_files(wanted)
    wanted = with_allocation(wanted, options)
    wanted = checked_goal(config.with_args_batch(wanted), python=python_of(wanted))
    if os.pathsep in str(folder.root.absolute()):
        raise UsageError(f"the folder {folder.root} has a {os.pathsep!r} in its name", hint="choose --out")
    return folder, wanted


def _varied(options: StudyOptions) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What is varied: flags of the script, values in files, configurations of the launcher."""
    files = [part.strip() for part in options.config.split(",")] if options.config else []
    return (
        *map(config.vary, options.vary or ()),
        *map(vary_file, options.vary_file or ()),
        *(((CONFIG, tuple(dict.fromkeys(files))),) if files else ()),
    )


def _fields(options: StudyOptions) -> dict[str, object]:
    """The fields of a Study, with None for what was not asked."""
    own_python = (
        options.python if options.python is None or options.container else interpreter(options.python)
    )
    search = options.find_batch
    if search and options.global_batch:
        raise UsageError(
            "--find-batch searches per-worker batches, and --global-batch fixes what workers share",
            hint="--find-batch --per-worker-batch 8 (where to begin)",
        )
    each, whole, limit = options.per_worker_batch, options.global_batch, options.memory_limit
    return {
        "workers": units.count_range(options.workers) if options.workers else None,
        "nodes": units.count_range(options.nodes) if options.nodes else None,
        "workers_per_node": units.count_range(options.workers_per_node) if options.workers_per_node else None,
        "per_worker_batch": config.numbers(each, flag="--per-worker-batch")
        if each
        else ((_SEARCH_FROM,) if search else None),
        "global_batch": config.numbers(whole, flag="--global-batch") if whole else None,
        "scaling": config.scalings(options.scaling) if options.scaling else None,
        "backends": config.backends(options.backend) if options.backend else None,
        "vary": _varied(options) or None,
        "lr": options.lr,
        "steps": options.steps or (_SEARCH_STEPS if search else None),
        "warmup": options.warmup if options.warmup is not None else (_SEARCH_WARMUP if search else None),
        "repeats": options.repeats or (1 if search else None),
        "tight_ratio": options.tight,
        "timeout_s": units.duration(options.timeout) if options.timeout else None,
        "hang_s": units.duration(options.hang) if options.hang else None,
        "budget_device_s": units.duration(options.budget) if options.budget else None,
        "find_batch": options.find_batch or None,
        "try_anyway": options.try_anyway or None,
        "keep_going": options.keep_going or None,
        "flops": False if options.no_flops else None,
        "threads": options.threads,
        "python": own_python,
        "memory_limit_bytes": units.bytes_of(limit) if limit is not None else None,
    }
