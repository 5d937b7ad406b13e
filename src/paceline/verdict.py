"""One sentence that answers the question, from what was measured: quantity, condition, consequence.

A count is worth its workers when every doubling up to it gained at least 1.5x. Whether it did is read from the whole
interval: a doubling whose interval lies on both sides of 1.5x is undecided, and the sentence says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import log2

from paceline.curve import series
from paceline.records import Finding, Profile
from paceline.units import percent_text

__all__ = ["WORTH_PER_DOUBLING", "largest_worthwhile", "scaling_text", "verdict", "workers_text"]

WORTH_PER_DOUBLING = (
    1.5  # "at least 1.5 times faster when you double the resources" (CSC's performance checklist)
)
_NOT_TOGETHER = {"no-exchange", "replicas-differ", "same-data"}
_SMALL_RATIO = 0.05


def verdict(profiles: Sequence[Profile], findings: Sequence[Finding]) -> str:
    """The sentence that stands first in terminal, JSON and report."""
    measured = [p for p in profiles if p.step_s is not None]
    if not measured:
        failed = next((p for p in profiles if p.reason), None)
        return f"Nothing could be measured: {failed.reason}." if failed else "Nothing was measured."
    voids = [finding for finding in findings if finding.level == "void"]
    if voids:
        return f"These measurements cannot be used: {voids[0].message}."
    curve, which = _told_series(measured)
    text = _one_count(curve[0]) if len(curve) < 2 else scaling_text(curve, which=which, limit=_limit)
    if {finding.id for finding in findings if finding.level == "doubt"} & _NOT_TOGETHER:
        text += " But the workers did not train one network together: see the findings."
    return text


def largest_worthwhile(curve: Sequence[Profile]) -> Profile:
    """The largest count at which every doubling so far gained at least 1.5x (as a rate per doubling)."""
    best = curve[0]
    for before, after in pairwise(curve):
        if before.point.workers == after.point.workers:  # the same count, placed on other nodes
            continue
        gain = _gain_per_doubling(before, after)
        if gain is None or gain < WORTH_PER_DOUBLING:
            break
        best = after
    return best


def scaling_text(
    curve: Sequence[Profile], *, which: str = "", limit: Callable[[Profile], str] | None = None
) -> str:
    """How many workers a Curve of two and more counts is worth; `which` Curve it is, and what limits it, if known."""
    base, best = curve[0], largest_worthwhile(curve)
    following = next((p for p in curve if p.point.workers > best.point.workers), None)
    shown = best if best is not base else following or curve[-1]
    gain = shown.speedup.value if shown.speedup else 1.0
    facts = (
        f"{shown.point.workers} run {gain:.2f}x as fast as {base.point.workers}, "
        f"{percent_text(shown.efficiency_ratio)} efficient ({shown.point.scaling} scaling{which})"
        f"{'' if limit is None else '; ' + limit(shown)}."
    )
    if _undecided(shown):
        return f"Not decided yet: {facts} The interval holds both answers; measure more launches on a quieter machine."
    if best is base:
        return f"Stay with {workers_text(base.point.workers)}: {facts}"
    text = f"Use {workers_text(best.point.workers)}: {facts}"
    if following is not None:
        text += (
            f" Beyond that, {following.point.workers} gain less than {WORTH_PER_DOUBLING:g}x per doubling."
        )
    return text


def _gain_per_doubling(before: Profile, after: Profile) -> float | None:
    if before.speedup is None or after.speedup is None:
        return None
    doublings = log2(after.point.workers / before.point.workers)
    return float((after.speedup.value / before.speedup.value) ** (1 / doublings)) if doublings > 0 else None


def _undecided(profile: Profile) -> bool:
    """Whether the interval of the speed-up holds both 'worth it' and 'not worth it'."""
    speedup, efficiency = profile.speedup, profile.efficiency_ratio
    if speedup is None or efficiency is None or speedup.low is None or speedup.high is None:
        return False
    more = speedup.value / efficiency.value if efficiency.value else 1.0
    needed = WORTH_PER_DOUBLING ** log2(more) if more > 1 else 1.0
    return speedup.low < needed <= speedup.high


def _told_series(measured: Sequence[Profile]) -> tuple[list[Profile], str]:
    """The series that the sentence is about, the most counts and then the fastest, and its name if there are others."""
    groups: dict[tuple[object, ...], list[Profile]] = {}
    for profile in measured:
        groups.setdefault(series(profile.point), []).append(profile)
    told = max(groups.values(), key=lambda group: (len(group), max(_rate(profile) for profile in group)))
    return sorted(told, key=lambda p: p.point.workers), _name(told[0]) if len(groups) > 1 else ""


def _rate(profile: Profile) -> float:
    return profile.throughput_per_s.value if profile.throughput_per_s else 0.0


def _name(profile: Profile) -> str:
    point = profile.point
    weak, strong = f"{point.per_worker_batch} per worker", f"global batch {point.global_batch}"
    batch = (weak if point.scaling == "weak" else strong) if point.global_batch else ""
    flags = [f"{key} {value}" for key, value in point.varied]
    return "".join(f", {part}" for part in (batch, point.backend or "", *flags) if part)


def _limit(profile: Profile) -> str:
    """The largest part of the step that is not computing, or that computing itself is the limit."""
    step = profile.step_s
    parts = {
        "wire time": profile.wire_s,
        "waiting for late workers": profile.straggle_s,
        "waiting for data": profile.input_s,
    }
    known = {name: part.value for name, part in parts.items() if part is not None}
    if step is None or not known:
        return "what limits it could not be seen"
    name, largest = max(known.items(), key=lambda item: item[1])
    if largest < _SMALL_RATIO * step.value:
        return "neither exchange, late workers nor data take 5% of a step: what remains is computing"
    return f"{percent_text(largest / step.value)} of each step is {name}"


def _one_count(profile: Profile) -> str:
    rate, step = profile.throughput_per_s, profile.step_s
    speed = (
        f"{rate.value:.4g} samples/s"
        if rate
        else f"{step.value * 1e3:.3g} ms per step"
        if step
        else "unknown speed"
    )
    return f"{workers_text(profile.point.workers)}: {speed}; one count says nothing about scaling, measure another."


def workers_text(count: int) -> str:
    """1 worker, 2 workers."""
    return f"{count} worker{'s' if count > 1 else ''}"
