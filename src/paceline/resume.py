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

from paceline.records import SteadyProbe
from paceline.steady import Steadiness, bursts, on_most_nodes

__all__ = ["Resumed", "resumed"]

_BELIEVED = 0.03  # of a step, as a deviation: before anything was probed


@dataclass(frozen=True, slots=True)
class Resumed:
    """Seconds of a step's computing, and how far they may be off (a standard deviation)."""

    seconds: float
    sd_s: float


def resumed(
    probes: Sequence[SteadyProbe],
    step_s: float,
    *,
    steady: Steadiness | None = None,
    steps_ratio: float | None = None,
) -> Resumed | None:
    """What the probes on the most nodes say of a step of this length; None where none of them paused.

    A training whose steps differ less than the machine's computing (one that mostly sleeps) is changed less, too.
    """
    paused = [probe for probe in on_most_nodes(probes) if probe.burst is not None]
    seen = [each for probe in paused if (each := _of(probe, step_s)) is not None]
    if not seen:
        return None
    value = fmean(each.seconds for each in seen)
    variance = sum(each.sd_s**2 for each in seen) / len(seen) ** 2
    before = (_BELIEVED * step_s) ** 2
    known = before / (before + variance)
    calmer = 1.0
    if steady is not None and steps_ratio is not None and steps_ratio < steady.alone:
        calmer = steps_ratio / steady.alone
    return Resumed(calmer * known * value, calmer * math.sqrt(known * variance))


def _of(probe: SteadyProbe, step_s: float) -> Resumed | None:
    each = bursts(probe)
    half, count = each.shape[2] // 2, each.shape[1]
    if half < 1 or count < 2:
        return None
    first = min(half, max(1, round(step_s / float(each.mean()))))
    later = each[:, :, half:].mean(axis=2, keepdims=True)
    found = (each[:, :, :first] - later).sum(axis=2).mean(axis=0)
    return Resumed(float(found.mean()), float(np.std(found, ddof=1)) / math.sqrt(count))
