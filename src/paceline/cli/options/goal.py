"""The options of `paceline study` that make every trial a training to a target, and what our workloads say of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from paceline.cli.options.study import StudyOptions
from paceline.converge.comparison import rises_by_name
from paceline.core.errors import UsageError
from paceline.launch.interpreter import workloads_path
from paceline.launch.preflight import checked_workload
from paceline.plan.config import vary
from paceline.plan.goal import LR_RULE, LR_RULES, WARMUP
from paceline.plan.trials import points_of, trial_args
from paceline.records import Goal, Point, Study

__all__ = ["checked_goal", "checked_metric", "checked_point", "goal_fields"]

_TIMEOUT_S = 86_400.0
_HANG_S = 900.0  # an evaluation takes no steps
_SEEDS = 3


def goal_fields(options: StudyOptions) -> dict[str, object]:
    """The fields of a Study that these options ask for; none where every trial is to time steps."""
    asked = {
        "--to-accuracy": options.to_accuracy,
        "--lr-rule": options.lr_rule,
        "--warmup-epochs": options.warmup_epochs,
        "--seeds": options.seeds,
        "--epochs": options.epochs,
        "--metric": options.metric,
    }
    given = [flag for flag, value in asked.items() if value is not None]
    if not given:
        return {}
    target, metric, seeds = options.to_accuracy, options.metric, options.seeds
    if target is None and options.epochs is None and seeds is None:
        raise UsageError(f"{given[0]} is about trainings, and no goal is named", hint="--to-accuracy 0.9")
    checked_metric(metric)
    rises = not options.lower_is_better and (metric is None or rises_by_name(metric))
    goal = Goal(target=target, metric=metric, rises=rises, epochs=options.epochs, seeds=seeds)
    varied = list(map(vary, options.vary or ()))
    if options.lr_rule is not None:
        varied.append((LR_RULE, _listed(options.lr_rule, LR_RULE, LR_RULES)))
    if options.warmup_epochs is not None:
        varied.append((WARMUP, _listed(options.warmup_epochs, WARMUP, None)))
    fields: dict[str, object] = {"goal": goal, **({"repeats": seeds} if seeds is not None else {})}
    return {**fields, **({"vary": tuple(varied)} if varied else {})}


def checked_metric(metric: str | None) -> None:
    """Refuse a pattern that cannot be searched for, or that does not say where the number is."""
    if metric is None or "(" not in metric:
        return
    try:
        groups = re.compile(metric).groups
    except re.error as problem:
        raise UsageError(
            f"--metric {metric!r} is no pattern: {problem}", hint="'val_acc=([0-9.]+)'"
        ) from None
    if groups != 1:
        raise UsageError(
            f"--metric {metric!r} has {groups} groups; the number is the one in brackets",
            hint="'val_acc=([0-9.]+)', and (?:…) for other brackets",
        )


def checked_goal(study: Study, *, python: str) -> Study:
    """The study with what its workload says of it: metric, direction, samples; refused here if it cannot be done."""
    goal = study.goal
    if goal is None:
        return study
    if goal.seeds is None:
        study = replace(study, repeats=_SEEDS)
        goal = replace(goal, seeds=_SEEDS)
    unasked = Study(study.workload)
    study = replace(
        study,
        goal=goal,
        timeout_s=_TIMEOUT_S if study.timeout_s == unasked.timeout_s else study.timeout_s,
        hang_s=_HANG_S if study.hang_s == unasked.hang_s else study.hang_s,
    )
    if study.workload.kind != "workload":
        _check_script(study)
        return study
    return _as_workload_says(study, goal, python=python)


def checked_point(study: Study, point: Point, *, python: str) -> dict[str, object]:
    """What the workload of a study says it would do at this point; its refusal is a UsageError."""
    return checked_workload(
        study.workload.name,
        trial_args(study, point),
        python=python,
        workers=point.workers,
        search=workloads_path(),
        directory=study.directory or ".",
    )


def _as_workload_says(study: Study, goal: Goal, *, python: str) -> Study:
    if goal.data is not None or study.slurm is not None:
        return study  # asked when the study was made; a login node may have neither torch nor the data
    for point in _extremes(points_of(study)):
        said = checked_point(study, point, python=python)
        samples, each = said["train_samples"], said["per_worker_batch"]
        assert isinstance(samples, int)
        assert isinstance(each, int)
        goal = replace(
            goal,
            metric=goal.metric or str(said["goal"]),
            rises=said["rises"] is True if goal.metric in (None, said["goal"]) else goal.rises,
            train_samples=samples,
            epochs=goal.epochs or int(str(said["epochs"])),
            data=str(said["data"]),
        )
        if not study.per_worker_batch and not study.global_batch:
            study = replace(study, per_worker_batch=(each,))
    return replace(study, goal=goal)


def _extremes(points: Sequence[Point]) -> list[Point]:
    """Fewest workers and largest batch: what the data allow there they allow between. A look costs seconds."""
    few = min(points, key=lambda p: (p.workers, p.global_batch or 0))
    large = max(points, key=lambda p: (p.global_batch or 0, p.workers))
    same = (few.workers, few.global_batch) == (large.workers, large.global_batch)
    return [few] if same else [few, large]


def _check_script(study: Study) -> None:
    keys = [flag for flag, _ in study.vary]
    if WARMUP in keys and not any(WARMUP in arg for arg in study.workload.args):
        raise UsageError(
            f"--warmup-epochs is our workloads'; {study.workload.name} may call it otherwise",
            hint="vary the script's own flag: --vary warmup=0,5",
        )
    if LR_RULE in keys and study.lr is None:
        raise UsageError(
            f"--lr-rule scales the learning rate of {study.workload.name}, and none is named",
            hint="--lr 0.1 --lr-flag --lr",
        )
    if study.goal is not None and study.goal.epochs is not None:
        raise UsageError(
            f"--epochs is our workloads'; {study.workload.name} takes its epochs by its own flag",
            hint="paceline study --to-accuracy 0.9 train.py -- --epochs 15",
        )


def _listed(text: str, flag: str, known: Sequence[str] | None) -> tuple[str, ...]:
    values = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for value in values:
        if known is not None and value not in known:
            raise UsageError(f"{flag} {value!r} is not known", hint=f"{flag} {','.join(known)}")
        if known is None and not (value.replace(".", "", 1).isdigit() and value.isascii()):
            raise UsageError(f"{flag} {value!r} is not a number of epochs", hint=f"{flag} 0,5")
    return values
