"""The learning rate as a function of samples seen, so that another worker count never changes it silently.

    peak(B)  = lr                     none
             = lr · B / base          linear
             = lr · √(B / base)       sqrt            B: global batch, base: the batch that lr was tuned for
             = lr                     adascale        times a gain that is measured at every step (adascale.py)
    rate(s)  = peak(B) · min(1, s / warm-up) · schedule(s)

    constant   1
    cosine     ½ (1 + cos π t)        t: from 0 at the end of the warm-up to 1 at the end of the training
    step       1, then 0.1 from half of the samples on, 0.01 from three quarters on

A step takes the rate in the middle of its samples: over a straight piece of the curve, the sum over steps of
rate × B is then the area under the curve, exactly, whatever B is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["RULES", "SCHEDULES", "RatePlan", "peak", "rate", "rate_of_step"]

RULES = ("none", "linear", "sqrt", "adascale")
SCHEDULES = ("constant", "cosine", "step")
_DROPS = (0.5, 0.75)


@dataclass(frozen=True, slots=True)
class RatePlan:
    """What was asked: the learning rate, the batch that it belongs to, and how it moves over the samples."""

    lr: float
    base_batch: int
    global_batch: int
    rule: str
    schedule: str
    warmup_samples: float
    total_samples: float


def peak(plan: RatePlan) -> float:
    """The learning rate after warm-up, before the schedule lowers it."""
    ratio = plan.global_batch / plan.base_batch
    return plan.lr * {"linear": ratio, "sqrt": math.sqrt(ratio)}.get(plan.rule, 1.0)


def rate(samples: float, plan: RatePlan) -> float:
    """The learning rate after so many samples."""
    if samples < plan.warmup_samples:
        return peak(plan) * samples / plan.warmup_samples
    return peak(plan) * _schedule(samples, plan)


def rate_of_step(step: int, plan: RatePlan) -> float:
    """The learning rate of a step (0, 1, …): in the middle of its samples."""
    return rate((step + 0.5) * plan.global_batch, plan)


def _schedule(samples: float, plan: RatePlan) -> float:
    if plan.schedule == "constant":
        return 1.0
    if plan.schedule == "step":
        done = samples / plan.total_samples
        return math.prod(0.1 for drop in _DROPS if done >= drop)
    way = max(plan.total_samples - plan.warmup_samples, 1.0)
    return 0.5 * (1.0 + math.cos(math.pi * min(1.0, (samples - plan.warmup_samples) / way)))
