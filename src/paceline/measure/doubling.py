"""What a Series gains from one count to the next, with its interval.

    before = of every count the largest that is at least 1.5 times smaller; where there is none, nothing is said:
             from 127 to 128 workers the ratio would be raised to its 88th power, and the luck of a launch with it
    gain   = (throughput of the larger count / throughput of the smaller one) ^ (1 / doublings between them)
    worth  = the whole 90% interval lies at 1.5x or above; not worth: below; else the launches cannot tell
             (single launches, which have no interval: within 7% of 1.5x nobody can tell)

Sentence, thresholds and advice rest on the same gains: what one of them cannot tell, none of them says.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

from paceline.core import calibration
from paceline.core.stats import powered, ratio_of, scaled
from paceline.records import Estimate, Profile

__all__ = ["WORTH_PER_DOUBLING", "Doubling", "Worth", "doublings", "smaller_count", "worth", "worthwhile"]

WORTH_PER_DOUBLING = calibration.WORTH_PER_DOUBLING.value
_APART_RATIO = 1.5  # counts that are closer do not tell what a doubling gains
_LUCK_RATIO = 1.07  # exp(1.645 √2 calibration.LAUNCH): 90 of 100 ratios of two single launches lie within


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


def doublings(curve: Sequence[Profile]) -> tuple[Doubling, ...]:
    """Every step up of one Curve, fewest workers first, whose speed-ups are known; other nodes alone are none."""
    counts, found = [profile.point.workers for profile in curve], []
    for after in curve:
        place = smaller_count(counts, after.point.workers)
        gain = None if place is None else _gain(curve[place], after)
        if place is not None and gain is not None:
            found.append(Doubling(curve[place], after, gain))
    return tuple(found)


def smaller_count(counts: Sequence[int], count: int) -> int | None:
    """Of ascending counts, the place of the largest one that a gain per doubling up to `count` can be told from."""
    return (
        bisect_right(counts, count / _APART_RATIO) - 1
        if counts and counts[0] * _APART_RATIO <= count
        else None
    )


def worth(gain: Estimate) -> bool | None:
    """Whether a doubling pays; None where the interval, or the luck of a single launch, holds both answers."""
    low = gain.value / _LUCK_RATIO if gain.low is None else gain.low
    high = gain.value * _LUCK_RATIO if gain.high is None else gain.high
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
