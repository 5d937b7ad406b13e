"""What a Curve gains from one count to the next, with its interval, and which Curve is told about.

    gain   = (throughput of the larger count / throughput of the smaller one) ^ (1 / doublings between them)
    worth  = the whole 90% interval lies at 1.5x or above; not worth: below; else the launches cannot tell
             (single launches, which have no interval: within 7% of 1.5x nobody can tell)

Sentence, thresholds and advice rest on the same gains: what one of them cannot tell, none of them says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log2

from paceline.curve import series
from paceline.records import Estimate, Profile
from paceline.refuse import incomparable
from paceline.stats import powered, ratio_of, scaled

__all__ = ["WORTH_PER_DOUBLING", "Doubling", "Worth", "doublings", "told_curve", "worth", "worthwhile"]

WORTH_PER_DOUBLING = (
    1.5  # "at least 1.5 times faster when you double the resources" (CSC's performance checklist)
)
_LUCK = 1.07  # 90 of 100 ratios of two single launches, each 3% off (advise_options), lie within: exp(1.645 √2 · 0.03)


@dataclass(frozen=True, slots=True)
class Doubling:
    """The way from one measured count to the next, and what each doubling on it gains."""

    before: Profile
    after: Profile
    gain: Estimate


@dataclass(frozen=True, slots=True)
class Worth:
    """How far a Curve is worth its workers: the largest count for sure, the next one, and whether that is undecided."""

    best: Profile
    following: Doubling | None
    undecided: bool


def told_curve(profiles: Sequence[Profile]) -> list[Profile]:
    """The series that sentence and advice are about: sound before unsound, then the most counts, then the fastest."""
    groups: dict[tuple[object, ...], list[Profile]] = {}
    for profile in profiles:
        groups.setdefault(series(profile.point), []).append(profile)
    told = max(
        groups.values(),
        key=lambda group: (
            not incomparable(group),
            len({profile.point.workers for profile in group}),
            max(_rate(profile) for profile in group),
        ),
        default=[],
    )
    return sorted(told, key=lambda p: (p.point.workers, p.point.nodes))


def doublings(curve: Sequence[Profile]) -> tuple[Doubling, ...]:
    """Every step up of one Curve whose speed-ups are known; the same count on other nodes is none."""
    found = []
    for before, after in pairwise(curve):
        gain = _gain(before, after)
        if gain is not None:
            found.append(Doubling(before, after, gain))
    return tuple(found)


def worth(gain: Estimate) -> bool | None:
    """Whether a doubling pays; None where the interval, or the luck of a single launch, holds both answers."""
    low = gain.value / _LUCK if gain.low is None else gain.low
    high = gain.value * _LUCK if gain.high is None else gain.high
    if low >= WORTH_PER_DOUBLING:
        return True
    return False if high < WORTH_PER_DOUBLING else None


def worthwhile(curve: Sequence[Profile]) -> Worth:
    """The largest count up to which every doubling surely pays, and what follows it."""
    best = curve[0]
    for step in doublings(curve):
        pays = worth(step.gain)
        if not pays:
            return Worth(best, step, pays is None)
        best = step.after
    return Worth(best, None, undecided=False)


def _gain(before: Profile, after: Profile) -> Estimate | None:
    """From the launches of both counts; the Baseline's own speed-up of 1 is no measurement of anything."""
    if before.speedup is None or after.speedup is None or before.speedup.value <= 0:
        return None
    doubled = log2(after.point.workers / before.point.workers)
    if doubled <= 0:
        return None
    value = after.speedup.value / before.speedup.value
    sure = _quotient(before, after)
    if sure is None or sure.value <= 0:
        return powered(Estimate(value, None, None, min(before.speedup.n, after.speedup.n)), 1 / doubled)
    known = scaled(sure, value / sure.value)
    return None if known is None else powered(known, 1 / doubled)


def _quotient(before: Profile, after: Profile) -> Estimate | None:
    """Speed of the larger count over that of the smaller one, up to a constant, from what both were measured in."""
    if before.throughput_per_s is not None and after.throughput_per_s is not None:
        return ratio_of(after.throughput_per_s, before.throughput_per_s)
    for then, now in (
        (before.step_s, after.step_s),
        (before.epoch_s, after.epoch_s),
        (before.job_s, after.job_s),
    ):
        if then is not None and now is not None:
            return ratio_of(then, now)
    return None


def _rate(profile: Profile) -> float:
    return profile.throughput_per_s.value if profile.throughput_per_s else 0.0
