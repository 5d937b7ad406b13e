"""The lines that sound and worthwhile scaling keeps to, each with what was seen: the ✓, ✗ and ? of a study.

doubling     from one count of a series to the next, throughput gains at least 1.5x per doubling of workers (undecided
             where the interval lies on both sides of it)
interval     the step time of every point is known to ± 10%
launches     every point was launched at least three times
agent        measuring cost at most 1% of a step, or 0.1 ms where that is more
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paceline.check_limits import OVERHEAD_RATIO, OVERHEAD_S
from paceline.check_noise import FEWEST_LAUNCHES, WIDE_RATIO
from paceline.curve import series
from paceline.doubling import WORTH_PER_DOUBLING, doublings, worth
from paceline.records import Profile, Threshold
from paceline.units import duration_text, percent_text, range_text

__all__ = ["thresholds"]


def thresholds(profiles: Sequence[Profile]) -> tuple[Threshold, ...]:
    """Every line that these Profiles can be held against: scaling first, then the evidence behind it."""
    measured = [profile for profile in profiles if profile.step_s is not None]
    return (*_doublings(measured), *_interval(measured), *_launches(measured), *_agent(measured))


def _doublings(measured: Sequence[Profile]) -> Iterator[Threshold]:
    groups: dict[tuple[object, ...], list[Profile]] = {}
    for profile in measured:
        groups.setdefault(series(profile.point), []).append(profile)
    for group in groups.values():
        which = f"{_line(group[0])}: " if len(groups) > 1 else ""
        for step in doublings(sorted(group, key=lambda p: p.point.workers)):
            before, after, pays = step.before.point, step.after.point, worth(step.gain)
            both = "one launch cannot tell" if step.gain.low is None else "the interval holds both answers"
            doubt = "" if pays is not None else f": {both}"
            yield Threshold(
                "gain-per-doubling",
                f"{which}{before.workers} → {after.workers} workers ({after.scaling}): throughput "
                f"gains {range_text(step.gain, unit='x')} per doubling, worthwhile from {WORTH_PER_DOUBLING:g}x{doubt}",
                step.gain.value,
                WORTH_PER_DOUBLING,
                pays,
            )


def _line(profile: Profile) -> str:
    """What sets the points of a series apart, in a few words."""
    point = profile.point
    batch = point.per_worker_batch if point.scaling == "weak" else point.global_batch
    parts = (
        [] if batch is None else [f"batch {batch} {'per worker' if point.scaling == 'weak' else 'in all'}"]
    )
    parts += [point.backend] if point.backend else []
    return (
        ", ".join([*parts, *(f"{flag.lstrip('-')} {value}" for flag, value in point.varied)]) or point.scaling
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
        message = (
            f"step times are known to ± {percent_text(widest)} or better (widest: {where}), "
            f"± {percent_text(WIDE_RATIO)} is enough"
        )
        yield Threshold("interval", message, widest, WIDE_RATIO, widest <= WIDE_RATIO)


def _launches(measured: Sequence[Profile]) -> Iterator[Threshold]:
    counts = [(step.n, profile.point.id) for profile in measured if (step := profile.step_s) is not None]
    if counts:
        fewest, where = min(counts)
        often = "once" if fewest == 1 else f"{fewest} times"
        message = f"every point was launched {often} or more (fewest: {where}), {FEWEST_LAUNCHES} are enough"
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
            f"measuring cost {duration_text(cost_s)} of a step at most (at {where}), "
            f"{duration_text(allowed_s)} is allowed"
        )
        yield Threshold("agent", message, cost_s, allowed_s, cost_s <= allowed_s)
