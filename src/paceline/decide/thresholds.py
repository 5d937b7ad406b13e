"""The lines that sound and worthwhile scaling keeps to, each with what was seen: the ✓, ✗ and ? of a study.

doubling     from one count of a series to the next, throughput gains at least 1.5x per doubling of workers (undecided
             where the interval lies on both sides of it)
interval     the step time of every point is known to ± 10%
launches     every point was launched at least three times
agent        measuring cost at most 1% of a step, or 0.1 ms where that is more
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paceline.check.limits import OVERHEAD_RATIO, OVERHEAD_S
from paceline.check.noise import FEWEST_LAUNCHES, WIDE_RATIO
from paceline.core.units import (
    UNUSABLE_RATIO,
    duration_text,
    is_unusable,
    percent_text,
    range_text,
    workers_text,
)
from paceline.measure.doubling import WORTH_PER_DOUBLING, doublings, worth
from paceline.measure.series import all_series
from paceline.records import Estimate, Profile, Threshold

__all__ = ["thresholds"]


def thresholds(profiles: Sequence[Profile]) -> tuple[Threshold, ...]:
    """Every line that these Profiles can be held against: scaling first, then the evidence behind it."""
    measured = [profile for profile in profiles if profile.step_s is not None]
    known = [profile for profile in profiles if profile.speedup is not None]  # also of whole trainings
    return (*_doublings(known), *_interval(measured), *_launches(measured), *_agent(measured))


def _doublings(measured: Sequence[Profile]) -> Iterator[Threshold]:
    for series in all_series(measured):
        which = f"{series.name}: " if series.name else ""
        for step in doublings(series.profiles):
            before, after, pays = step.before.point, step.after.point, worth(step.gain)
            both = "one run cannot tell" if step.gain.low is None else "too noisy to decide"
            doubt = "" if pays is not None else f": {both}"
            yield Threshold(
                "gain-per-doubling",
                f"{which}{before.workers} → {workers_text(after.workers, step.after.unit)} ({after.scaling}): "
                f"{_gain(step.gain)} per doubling (worth it from {WORTH_PER_DOUBLING:g}x){doubt}",
                step.gain.value,
                WORTH_PER_DOUBLING,
                pays,
                (before.id, after.id),
            )


def _interval(measured: Sequence[Profile]) -> Iterator[Threshold]:
    """The widest half-interval, relative to its value."""
    widths = [
        ((step.high - step.low) / 2 / step.value, profile.point.id)
        for profile in measured
        if (step := profile.step_s) is not None and step.low is not None and step.high is not None
    ]
    if widths:
        widest, where = max(widths)
        known = "unusable: runs differ too much" if widest > UNUSABLE_RATIO else f"± {percent_text(widest)}"
        message = f"step times: {known} (± {percent_text(WIDE_RATIO)} is enough; widest: {where})"
        yield Threshold("interval", message, widest, WIDE_RATIO, widest <= WIDE_RATIO)


def _launches(measured: Sequence[Profile]) -> Iterator[Threshold]:
    counts = [(step.n, profile.point.id) for profile in measured if (step := profile.step_s) is not None]
    if counts:
        fewest, where = min(counts)
        message = f"{_runs(fewest)} per setting ({FEWEST_LAUNCHES} needed; fewest: {where})"
        yield Threshold("launches", message, float(fewest), float(FEWEST_LAUNCHES), fewest >= FEWEST_LAUNCHES)


def _agent(measured: Sequence[Profile]) -> Iterator[Threshold]:
    """The point at which measuring cost most, relative to what it may cost."""
    costs = [
        (cost.value / allowed, cost.value, allowed, profile.point.id)
        for profile in measured
        if (cost := profile.overhead_s) is not None and (step := profile.step_s) is not None
        for allowed in [max(OVERHEAD_RATIO * step.value, OVERHEAD_S)]
    ]
    if costs:
        _, cost_s, allowed_s, where = max(costs)
        message = (
            f"measuring overhead {duration_text(cost_s)} per step at most "
            f"(limit {duration_text(allowed_s)}; at {where})"
        )
        yield Threshold("agent", message, cost_s, allowed_s, cost_s <= allowed_s)


def _gain(gain: Estimate) -> str:
    return "unusable: runs differ too much" if is_unusable(gain) else range_text(gain, unit="x")


def _runs(count: int) -> str:
    return f"only {count} run{'' if count == 1 else 's'}" if count < FEWEST_LAUNCHES else f"{count} runs"
