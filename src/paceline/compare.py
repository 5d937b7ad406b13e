"""Two Analyses, point by point: is there a difference, or is none shown?

ratio      b / a, from the launches of both: ln b - ln a, standard errors from the 90% intervals,
           Welch's degrees of freedom
shown      the 90% interval of the ratio leaves out 1
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields

from paceline import stats
from paceline.errors import NothingMeasured, UsageError
from paceline.records import Analysis, Estimate, Profile
from paceline.units import counts_text, duration

__all__ = [
    "QUANTITIES",
    "Difference",
    "Threshold",
    "differences",
    "holds",
    "profile_at",
    "ratio_of",
    "threshold",
]

QUANTITIES = {
    "efficiency": "efficiency_ratio",
    "speedup": "speedup",
    "throughput": "throughput_per_s",
    "step": "step_s",
    "exposed": "exposed_s",
    "wire": "wire_s",
    "straggle": "straggle_s",
    "input": "input_s",
    "memory": "peak_memory_bytes",
}
_THRESHOLD = re.compile(r"\s*([a-z_]+)\s*@\s*(\d+)\s*(<=|>=|<|>)\s*(\S.*?)\s*")


@dataclass(frozen=True, slots=True)
class Difference:
    """One quantity at one point of two studies. `ratio` is b / a; None where it cannot be given."""

    point: str
    quantity: str
    a: Estimate | None
    b: Estimate | None
    ratio: Estimate | None

    @property
    def shown(self) -> bool | None:
        """Whether the launches show a difference; None when there are too few to say."""
        if self.ratio is None or self.ratio.low is None or self.ratio.high is None:
            return None
        return not self.ratio.low <= 1.0 <= self.ratio.high


@dataclass(frozen=True, slots=True)
class Threshold:
    """A condition that must not hold: quantity at a worker count, less or more than a limit."""

    text: str
    field: str
    workers: int
    sign: str
    limit: float


def differences(a: Analysis, b: Analysis) -> tuple[Difference, ...]:
    """Step time and throughput of every point that both studies have, and efficiency where both have it."""
    several = any(len({p.point.backend for p in analysis.points}) > 1 for analysis in (a, b))
    others = {_setting(profile, by_backend=several): profile for profile in b.points}
    found = []
    for before in a.points:
        after = others.get(_setting(before, by_backend=several))
        if after is None:
            continue
        for field in ("step_s", "throughput_per_s", "efficiency_ratio", "exposed_s"):
            left, right = getattr(before, field), getattr(after, field)
            if left is not None and right is not None:
                found.append(Difference(before.point.id, field, left, right, ratio_of(right, left)))
    return tuple(found)


def ratio_of(top: Estimate, bottom: Estimate) -> Estimate | None:
    """top / bottom with a 90% interval from both estimates' own; None where either is not positive."""
    return None if min(top.value, bottom.value) <= 0 else stats.ratio_of(top, bottom)


def threshold(text: str) -> Threshold:
    """`efficiency@4<0.7`, `step@2>80ms`, `efficiency@8 < 70%`."""
    match = _THRESHOLD.fullmatch(text.lower())
    known = {**QUANTITIES, **{field.name: field.name for field in fields(Profile)}}
    if match is None or match[1] not in known:
        raise UsageError(
            f"--fail-if {text!r} is not QUANTITY@WORKERS<LIMIT; quantities: {', '.join(QUANTITIES)}",
            hint="--fail-if 'efficiency@4<0.7'",
        )
    return Threshold(text.strip(), known[match[1]], int(match[2]), match[3], _limit(match[4]))


def holds(condition: Threshold, analysis: Analysis) -> bool:
    """Whether the condition holds for the measured value at that count."""
    value = profile_at(condition, analysis).value
    match condition.sign:
        case "<":
            return value < condition.limit
        case "<=":
            return value <= condition.limit
        case ">":
            return value > condition.limit
    return value >= condition.limit


def profile_at(condition: Threshold, analysis: Analysis) -> Estimate:
    """The estimate that a condition speaks of; of several points with as many workers, the first measured."""
    at = [profile for profile in analysis.points if profile.point.workers == condition.workers]
    values: Sequence[object] = [getattr(profile, condition.field) for profile in at]
    found = next((value for value in values if isinstance(value, Estimate)), None)
    if found is None:
        counts = counts_text(p.point.workers for p in analysis.points if p.step_s is not None) or "none"
        raise NothingMeasured(
            f"--fail-if {condition.text!r}: nothing was measured there; measured worker counts: {counts}",
            hint=f"paceline study … --workers {condition.workers}",
        )
    return found


def _setting(profile: Profile, *, by_backend: bool) -> tuple[object, ...]:
    """What must be equal. One study on gloo and one on nccl are compared; a study of both has two of every point."""
    point = profile.point
    backend = point.backend if by_backend else None
    return point.workers, point.nodes, point.per_worker_batch, point.scaling, backend, point.varied


def _limit(text: str) -> float:
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        return duration(text)
