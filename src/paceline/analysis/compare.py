"""Two Analyses, point by point: is there a difference, or is none shown?

ratio      b / a, from the launches of both: ln b - ln a, standard errors from the 90% intervals,
           Welch's degrees of freedom
shown      the 90% interval of the ratio leaves out 1
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline.core import stats
from paceline.records import Analysis, Estimate, Profile

__all__ = ["Difference", "differences", "ratio_of"]


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


def _setting(profile: Profile, *, by_backend: bool) -> tuple[object, ...]:
    """What must be equal. One study on gloo and one on nccl are compared; a study of both has two of every point."""
    point = profile.point
    backend = point.backend if by_backend else None
    return point.workers, point.nodes, point.per_worker_batch, point.scaling, backend, point.varied
