"""The lines that a fit and simpler curves draw through one line of Points, at measured counts and at projected ones.

    work time  = time / (steps x workers x batch)              seconds per sample, or in proportion to them
    speed-up   = work per second against the measured Baseline: the ratio of work times where steps were measured, of
                 times where fixed work was (an epoch rounds up to whole steps), as points and projections say it
    efficiency = speed-up / (workers / workers of the Baseline)

A line is what speed-up is compared over: one scaling mode, one per-worker batch (weak) or global batch (strong).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paceline.predict.baselines import baseline_times
from paceline.predict.fit import Law
from paceline.predict.observations import Observed
from paceline.predict.project import draws
from paceline.predict.step_law import Array
from paceline.records import FittedLine, Point, Profile, Projection, Setting

__all__ = ["fitted_lines"]


def fitted_lines(law: Law, everything: Observed, projected: Sequence[Projection]) -> tuple[FittedLine, ...]:
    """For each line with two counts or more: ours, then every simpler curve that its points determine."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for i, profile in enumerate(everything.profiles):
        groups.setdefault(_line(profile.point), []).append(i)
    found: list[FittedLine] = []
    for own in groups.values():
        if len({everything.profiles[i].point.workers for i in own}) > 1:
            found += _lines_of(law, everything, own, projected)
    return tuple(found)


def _line(point: Point) -> tuple[object, ...]:
    return (point.scaling, point.per_worker_batch if point.scaling == "weak" else point.global_batch)


def _lines_of(
    law: Law, everything: Observed, own: Sequence[int], projected: Sequence[Projection]
) -> list[FittedLine]:
    lowest = everything.profiles[own[0]]  # profiles ascend in workers
    base = lowest.point
    settings = {
        (p.workers, p.nodes): Setting(p.workers, p.nodes, p.per_worker_batch)
        for p in [everything.profiles[i].point for i in own]
    }
    ahead = [p for p in projected if p.baseline == base.id]
    settings |= {(p.workers, p.nodes): Setting(p.workers, p.nodes, p.per_worker_batch) for p in ahead}
    at = [settings[key] for key in sorted(settings)]
    counts = [s.workers for s in at]
    if len(set(counts)) != len(counts):  # one count on several numbers of nodes: no curve of workers alone
        return []
    indices = np.array(own)
    size = everything.units * everything.workers * everything.batch
    work = everything.time_s[indices] / size[indices]
    first = float(work[0])
    predicted = draws(law, at)
    batches = np.array([float(s.per_worker_batch or 1) for s in at]) if everything.batch_known else 1.0
    handled = predicted.units * np.array(counts) * batches
    ours = 1.0 / np.median(
        handled / predicted.time_s, axis=0
    )  # the middle of speed-ups, as projections say it
    curves: dict[str, Array | None] = {"paceline": np.asarray(ours)}
    seen = [float(n) for n in everything.workers[indices]]
    for name, times in baseline_times(seen, list(work), [float(n) for n in counts]).items():
        curves[name] = None if times is None else np.asarray(times)
    more = 1.0 if everything.kind == "step" else size[indices][0] / handled
    return [
        _fitted(lowest, name, counts, more * first / times)
        for name, times in curves.items()
        if times is not None and np.all(np.isfinite(times)) and np.all(times > 0)
    ]


def _fitted(lowest: Profile, method: str, counts: Sequence[int], gain: Array) -> FittedLine:
    """Gains over the lowest count, as speed-up: that count's own Baseline may lie on another line."""
    more = np.array(counts) / lowest.point.workers
    speedup = lowest.speedup.value if lowest.speedup else 1.0
    efficiency = lowest.efficiency_ratio.value if lowest.efficiency_ratio else 1.0
    return FittedLine(
        lowest.point.id,
        method,
        tuple(counts),
        tuple(float(x) for x in gain * speedup),
        tuple(float(x) for x in gain / more * efficiency),
    )
