"""A Study becomes Points, and Points become Trials in the order that fights drift, with their price.

weak     per-worker batch b at every count:   global batch = b · workers
strong   global batch G at every count:       per-worker batch = G / workers, refused unless it divides
order    repeat 1 of every point forward, repeat 2 backward, repeat 3 forward …: a machine that slowly
         warms up or fills up then moves every point alike, not the last ones only
price    workers · (start-up + steps · step time), summed over trials
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product

from paceline.core.errors import UsageError
from paceline.plan.config import places, with_args_batch
from paceline.plan.goal import goal_flags, rate_at, told_by_flag, training_steps
from paceline.records import Plan, Point, Scaling, Study, Trial

__all__ = [
    "PROFILE_STEPS",
    "assumed_wall_s",
    "plan_study",
    "points_of",
    "steps_of_trial",
    "trial_args",
    "with_flag",
]

PROFILE_STEPS = 5  # further steps of a trial, hooked for the bucket timeline
ASSUMED_STEP_S = 0.1  # until the first trial has measured it
ASSUMED_START_S = 8.0  # interpreter, torch and rendezvous, before the first step
_LONGEST_ID = 80
_ASSIGNED = re.compile(
    r"(\+{0,2})([A-Za-z_][\w./@:]*)=.*", re.DOTALL
)  # Hydra: key=value, +key=value, ++key=value


def plan_study(study: Study) -> Plan:
    """Every Trial of the Study, in order, and what they are expected to cost before any is measured."""
    study = with_args_batch(study)
    points = points_of(study)
    first: dict[object, Point] = {}
    for point in points:
        first.setdefault(point.launched_as, point)
    once = tuple(first.values())
    trials = tuple(
        Trial(f"{point.id}-{repeat}", point, repeat, trial_args(study, point, repeat=repeat))
        for repeat in range(1, study.repeats + 1)
        for point in (once if repeat % 2 else reversed(once))
    )
    trial_s = {point.id: assumed_wall_s(study, point) for point in points}
    return Plan(
        points=points,
        trials=trials,
        device_s=sum(trial.point.workers * trial_s[trial.point.id] for trial in trials),
        wall_s=sum(trial_s[trial.point.id] for trial in trials),
        assumed_step_s=ASSUMED_STEP_S,
    )


def steps_of_trial(study: Study) -> int:
    """Optimizer steps in one trial: warm-up, measured, profiled."""
    return study.warmup + study.steps + PROFILE_STEPS


def assumed_wall_s(study: Study, point: Point) -> float:
    """How long a trial of this point takes, at most, before any is measured."""
    return ASSUMED_START_S + (training_steps(study, point) or steps_of_trial(study)) * ASSUMED_STEP_S


def points_of(study: Study) -> tuple[Point, ...]:
    """The settings asked for: workers × batch × scaling × backend × varied flags."""
    study = with_args_batch(study)
    names, choices = [key for key, _ in study.vary], [values for _, values in study.vary]
    points = []
    for scaling, backend, values in product(study.scaling, study.backends or (None,), product(*choices)):
        varied = tuple(zip(names, values, strict=True))
        for nodes, workers, per_worker, whole in _batches(study, scaling):
            point = Point(
                id="",
                workers=workers,
                nodes=nodes,
                per_worker_batch=per_worker,
                global_batch=whole,
                scaling=scaling,
                backend=backend,
                varied=varied,
            )
            points.append(replace(point, id=_point_id(point, named_nodes=bool(study.nodes))))
    return tuple(points)


def trial_args(study: Study, point: Point, *, repeat: int = 1) -> tuple[str, ...]:
    """The script's arguments at this point: placeholders filled in, batch, rate and varied flags set."""
    workload, lr = study.workload, rate_at(study, point)
    values = {
        "{per_worker_batch}": point.per_worker_batch,
        "{global_batch}": point.global_batch,
        "{workers}": point.workers,
        "{lr}": lr,
        "{seed}": repeat,
    }
    args = tuple(_filled(arg, values) for arg in workload.args)
    if workload.batch_flag is not None and point.per_worker_batch is not None:
        args = with_flag(args, workload.batch_flag, str(point.per_worker_batch))
    elif point.per_worker_batch is not None and not _has(
        workload.args, "{per_worker_batch}", "{global_batch}"
    ):
        raise UsageError(
            f"a per-worker batch of {point.per_worker_batch} is asked for, but the script is not given it",
            hint="name its flag, --batch-flag --batch-size, or write {per_worker_batch} in the script args",
        )
    if lr is not None:
        if workload.lr_flag is not None:
            args = with_flag(args, workload.lr_flag, f"{lr:g}")
        elif not _has(workload.args, "{lr}"):
            raise UsageError(
                f"a learning rate of {lr:g} is asked for, but the script is not given it",
                hint="name the script's own flag, --lr-flag --lr, or write {lr} in its args",
            )
    for flag, value in (*point.varied, *goal_flags(study, repeat=repeat)):
        if told_by_flag(study, flag):
            args = with_flag(args, flag, _filled(value, values))
    return args


def with_flag(args: Sequence[str], flag: str, value: str) -> tuple[str, ...]:
    """The args with `flag` set to `value`: replaced in its own form (`--k v`, `--k=v`, `-b8`, `k=v`), else added.

    `k=v` is how Hydra is told: for a flag without a dash, and where the args that are there have that form.
    """
    changed, found = list(args), False
    short = len(flag) == 2 and flag[1] != "-"
    bare = flag.lstrip("-")
    for index, arg in enumerate(args):
        if arg == flag and index + 1 < len(args):
            changed[index + 1], found = value, True
        elif arg.startswith(f"{flag}="):
            changed[index], found = f"{flag}={value}", True
        elif short and arg.startswith(flag) and len(arg) > 2 and not arg.startswith("--"):
            changed[index], found = f"{flag}{value}", True
        elif (assigned := _ASSIGNED.fullmatch(arg)) is not None and assigned[2] == bare:
            changed[index], found = f"{assigned[1]}{bare}={value}", True
    if found:
        return tuple(changed)
    assigns = flag == bare or (bool(args) and all(_ASSIGNED.fullmatch(arg) for arg in args))
    return (*changed, f"{bare}={value}") if assigns else (*changed, flag, value)


def _batches(study: Study, scaling: Scaling) -> Iterator[tuple[int, int, int | None, int | None]]:
    """Nodes, workers, per-worker batch and global batch of every point of one scaling."""
    counts = places(study)
    base = min(workers for _, workers in counts)
    if not study.per_worker_batch and not study.global_batch:
        yield from ((nodes, workers, None, None) for nodes, workers in counts)
    elif scaling == "weak":
        asked: Iterable[int] = study.per_worker_batch or (_share(g, base) for g in study.global_batch)
        for per_worker in asked:
            yield from ((nodes, workers, per_worker, per_worker * workers) for nodes, workers in counts)
    else:
        for whole in study.global_batch or [b * base for b in study.per_worker_batch]:
            yield from ((nodes, workers, _share(whole, workers), whole) for nodes, workers in counts)


def _share(global_batch: int, workers: int) -> int:
    if global_batch % workers:
        nearest = max(1, round(global_batch / workers)) * workers
        raise UsageError(
            f"a global batch of {global_batch} cannot be divided among {workers} workers",
            hint=f"choose a multiple: --global-batch {nearest}, or leave {workers} out of --workers",
        )
    return global_batch // workers


def _point_id(point: Point, *, named_nodes: bool) -> str:
    """A name that is also a folder: w4-b32-gloo, w4-g128 (strong), w2-b32-lr=0.1, n2-w4-b32 (nodes were asked for)."""
    parts = [f"n{point.nodes}"] if named_nodes else []
    parts.append(f"w{point.workers}")
    if point.per_worker_batch is not None:
        strong = point.scaling == "strong"
        parts.append(f"g{point.global_batch}" if strong else f"b{point.per_worker_batch}")
    if point.backend is not None:
        parts.append(point.backend)
    parts += [f"{flag.lstrip('-')}={value}" for flag, value in point.varied]
    plain = "-".join(parts)
    safe = re.sub(r"[^A-Za-z0-9._=+-]", "_", plain)[:_LONGEST_ID]
    if safe == plain:
        return safe
    # two values that differ only in what a folder name cannot hold must not share a folder
    return f"{safe}-{hashlib.sha256(plain.encode()).hexdigest()[:6]}"


def _filled(text: str, values: dict[str, int | float | None]) -> str:
    for placeholder, value in values.items():
        if placeholder in text:
            if value is None:
                flag = {"{lr}": "--lr 0.1"}.get(placeholder, "--per-worker-batch 32")
                raise UsageError(f"{text!r} needs a value for {placeholder}", hint=f"add {flag}")
            text = text.replace(placeholder, f"{value:g}" if isinstance(value, float) else str(value))
    return text


def _has(args: Sequence[str], *placeholders: str) -> bool:
    return any(placeholder in arg for arg in args for placeholder in placeholders)
