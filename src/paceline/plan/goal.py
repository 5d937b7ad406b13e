"""Trials that train to a Goal: what tells the script its seed, its budget and its rule, and what a training costs.

seed     the repeat: --seed of our workloads, the script's own --seed-flag, or {seed} in its args
rule     --lr-rule of our workloads. A script is told its rate instead, lr · f(B / B₀), B₀ the smallest global batch:
             none f = 1      linear f = B / B₀      sqrt f = √(B / B₀)
steps    epochs · (samples ÷ global batch)
"""

from __future__ import annotations

import math

from paceline.core.errors import UsageError
from paceline.plan.config_files import CONFIG, is_file_key
from paceline.records import Point, Study

__all__ = ["LR_RULE", "LR_RULES", "WARMUP", "goal_flags", "rate_at", "told_by_flag", "training_steps"]

LR_RULE, WARMUP = "--lr-rule", "--warmup-epochs"
LR_RULES = ("none", "linear", "sqrt", "adascale")


def goal_flags(study: Study, *, repeat: int) -> tuple[tuple[str, str], ...]:
    """The flags that a training of this study gets beside those that are varied."""
    goal, workload = study.goal, study.workload
    if goal is None:
        return ()
    flags: list[tuple[str, str]] = []
    ours = workload.kind == "workload"
    seed_flag = "--seed" if ours else workload.seed_flag
    if goal.seeds is not None and seed_flag is not None:
        flags.append((seed_flag, str(repeat)))
    if ours and goal.epochs is not None:
        flags.append(("--epochs", str(goal.epochs)))
    if ours and goal.target is not None:
        flags.append(("--target", f"{goal.target:.10g}"))
    return tuple(flags)


def told_by_flag(study: Study, flag: str) -> bool:
    """Whether a varied flag is the script's own; a script does not know our rule, it is told its rate."""
    if flag == CONFIG or is_file_key(flag):
        return False  # the launcher is told, or the file that the script reads
    return flag != LR_RULE or study.goal is None or study.workload.kind == "workload"


def rate_at(study: Study, point: Point) -> float | None:
    """The learning rate that a script is told at this point."""
    rule = dict(point.varied).get(LR_RULE, "none")
    if study.lr is None or told_by_flag(study, LR_RULE):
        return study.lr
    if rule not in ("none", "linear", "sqrt"):
        raise UsageError(
            f"--lr-rule {rule} needs our trainer; {study.workload.name} takes one rate per configuration",
            hint="--lr-rule none,linear,sqrt",
        )
    if point.global_batch is None:
        raise UsageError(
            f"--lr-rule {rule} follows the global batch, which nobody has named",
            hint="--per-worker-batch 32 --batch-flag --batch-size",
        )
    ratio = point.global_batch / _base_batch(study)
    return study.lr * {"none": 1.0, "linear": ratio, "sqrt": math.sqrt(ratio)}[rule]


def training_steps(study: Study, point: Point) -> int | None:
    """Optimizer steps of one training, at most; None where nobody knows."""
    goal = study.goal
    if goal is None or goal.epochs is None or goal.train_samples is None or point.global_batch is None:
        return None
    return goal.epochs * max(1, goal.train_samples // point.global_batch)


def _base_batch(study: Study) -> int:
    each = [batch * min(study.workers) for batch in study.per_worker_batch]
    return min([*study.global_batch, *each])
