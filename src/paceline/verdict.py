"""One sentence that answers the question, from what was measured: quantity, condition, consequence."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import log2

from paceline.curve import series
from paceline.records import Finding, Profile
from paceline.units import percent_text

__all__ = ["WORTH_PER_DOUBLING", "verdict"]

WORTH_PER_DOUBLING = (
    1.5  # "at least 1.5 times faster when you double the resources" (CSC's performance checklist)
)


def verdict(profiles: Sequence[Profile], findings: Sequence[Finding]) -> str:
    """The sentence that stands first in terminal, JSON and report."""
    measured = [p for p in profiles if p.step_s is not None]
    if not measured:
        first = next((p for p in profiles if p.reason), None)
        return (
            f"Nothing could be measured: {first.point.id} {first.state}, {first.reason}."
            if first
            else "Nothing was measured."
        )
    voids = [f for f in findings if f.level == "void"]
    if voids:
        return f"These measurements cannot be used: {voids[0].message}."
    alone = {f.id for f in findings if f.level == "doubt"} & {"no-exchange", "replicas-differ", "same-data"}
    curve = _longest_series(measured)
    if len(curve) < 2:
        return _one_count(curve[0])
    base, top, best = curve[0], curve[-1], largest_worthwhile(curve)
    text = (
        f"Use {best.point.workers} workers: "
        if best is not base
        else f"Stay with {base.point.workers} worker{'s' if base.point.workers > 1 else ''}: "
    )
    shown = best if best is not base else top
    gain = shown.speedup.value if shown.speedup else 1.0
    text += (
        f"{shown.point.workers} run {gain:.2f}x as fast as {base.point.workers}, "
        f"{percent_text(shown.efficiency_ratio)} efficient ({shown.point.scaling} scaling)"
    )
    text += f"; {_limit(shown)}."
    if best is not top and best is not base:
        text += f" Beyond that each doubling gains less than {WORTH_PER_DOUBLING:g}x."
    if alone:
        text += " But the workers did not train one network together: see the findings."
    return text


def largest_worthwhile(curve: Sequence[Profile]) -> Profile:
    """The largest count at which every doubling so far gained at least 1.5x (as a rate per doubling)."""
    best = curve[0]
    for before, after in pairwise(curve):
        if before.speedup is None or after.speedup is None:
            break
        doublings = log2(after.point.workers / before.point.workers)
        if (after.speedup.value / before.speedup.value) ** (1 / doublings) < WORTH_PER_DOUBLING:
            break
        best = after
    return best


def _longest_series(measured: Sequence[Profile]) -> list[Profile]:
    groups: dict[tuple[object, ...], list[Profile]] = {}
    for profile in measured:
        groups.setdefault(series(profile.point), []).append(profile)
    longest = max(groups.values(), key=len)
    return sorted(longest, key=lambda p: p.point.workers)


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
    if largest < 0.05 * step.value:
        return "what remains is compute, which slows down when workers share a host"
    return f"{percent_text(largest / step.value)} of each step is {name}"


def _one_count(profile: Profile) -> str:
    count = profile.point.workers
    rate = profile.throughput_per_s
    speed = (
        f"{rate.value:.4g} samples/s"
        if rate
        else f"{profile.step_s.value * 1e3:.3g} ms per step"
        if profile.step_s
        else ""
    )
    return f"{count} worker{'s' if count > 1 else ''}: {speed}; one count says nothing about scaling, measure another."
