"""What computing takes longer, or shorter, for having waited before: from bursts of equal pieces with pauses between.

    E(L) = Σ over a burst's first L seconds of (piece − mean piece of its second half), mean over bursts and workers

One worker computes on and on; a worker of a training waits in every step. Who waited may find its CPU limit unused and
run ahead until it is spent (a quarter of a core: 9 ms of a step), or a core that has to wake (cores of a virtual
machine: 2% of a step). Where the probe is short, E is drawn to 0: such effects are a few percent of a step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from paceline.core import calibration
from paceline.core.stats import NINETY
from paceline.core.units import duration_text
from paceline.predict.jitter import SHOWN_S, Jitter, bursts, calm_share, on_most_nodes
from paceline.records import JitterProbe

__all__ = ["AfterWait", "after_wait", "after_wait_lines", "after_wait_rows", "after_wait_text"]

_WORTH_SAYING_RATIO = 0.005  # convention, of a step: what waiting changes by less is not worth a word


@dataclass(frozen=True, slots=True)
class AfterWait:
    """Seconds of a step's computing, and how far they may be off (a standard deviation)."""

    seconds: float
    sd_s: float


def after_wait(
    probes: Sequence[JitterProbe],
    step_s: float,
    *,
    jitter: Jitter | None = None,
    steps_ratio: float | None = None,
) -> AfterWait | None:
    """What the probes on the most nodes say of a step of this length; None where none of them paused.

    A training whose steps differ less than the machine's computing (one that mostly sleeps) is changed less, too.
    """
    paused = [probe for probe in on_most_nodes(probes) if probe.burst is not None]
    seen = [each for probe in paused if (each := _of(probe, step_s)) is not None]
    if not seen:
        return None
    value = fmean(each.seconds for each in seen)
    variance = sum(each.sd_s**2 for each in seen) / len(seen) ** 2
    before = (calibration.AFTER_WAIT.spread * step_s) ** 2
    known = before / (before + variance)
    share = 1.0 if jitter is None or steps_ratio is None else calm_share(jitter, steps_ratio)
    return AfterWait(share * known * value, share * math.sqrt(known * variance))


def after_wait_rows(probes: Sequence[JitterProbe]) -> list[dict[str, float]]:
    """What steps of 50 ms and half a second compute longer for having waited; nothing where no probe paused."""
    found = ((step_s, after_wait(probes, step_s)) for step_s in SHOWN_S)
    return [
        {"step_s": step_s, "resumed_s": each.seconds, "sd_s": each.sd_s}
        for step_s, each in found
        if each is not None
    ]


def after_wait_text(waited: AfterWait | None, step_s: float) -> str | None:
    """That in words, where it is worth any."""
    if waited is None or abs(waited.seconds) < max(_WORTH_SAYING_RATIO * step_s, NINETY * waited.sd_s):
        return None
    return f"{duration_text(abs(waited.seconds))} {'longer' if waited.seconds > 0 else 'less'}"


def after_wait_lines(probes: Sequence[JitterProbe]) -> tuple[str, ...]:
    """What waiting changes in computing, in one line, if it does."""
    parts = [
        f"{text} in steps of {duration_text(step_s)}"
        for step_s in SHOWN_S
        if (text := after_wait_text(after_wait(probes, step_s), step_s)) is not None
    ]
    return (f"after a wait, computing takes {' and '.join(parts)} than without one",) if parts else ()


def _of(probe: JitterProbe, step_s: float) -> AfterWait | None:
    each = bursts(probe)
    half, count = each.shape[2] // 2, each.shape[1]
    if half < 1 or count < 2:
        return None
    first = min(half, max(1, round(step_s / float(each.mean()))))
    later = each[:, :, half:].mean(axis=2, keepdims=True)
    found = (each[:, :, :first] - later).sum(axis=2).mean(axis=0)
    return AfterWait(float(found.mean()), float(np.std(found, ddof=1)) / math.sqrt(count))
