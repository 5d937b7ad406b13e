"""By how much workers differ at the same moment, from pieces of work that a probe timed on all of them together.

A step of L seconds is as many pieces in a row as take L, within one burst (all of a burst, where L is longer); of K
workers, over all such rows:

    at once     (mean of the slowest / mean of all − 1) / m(K)       m: expected maximum of K standard normal values
    alone       the deviation of one worker's rows, over eight in a row, or as many as a burst has: as long as a short
                launch. Where a burst has less than five, that of shorter rows, as if it evened out in longer ones.
    paused      the same over eight rows one after the other, pauses or not: what drifts, and what a pause changes, too

Steps of one worker show both what is its own and what a machine's slow minute does to all: `alone`. Waiting for each
other costs what is at once. Hosts that keep another speed for seconds, or get another one whenever they waited, differ
more at once than any of them alone. What they keep from the first burst to the last one is known from so many hosts
only: two that differ all the time are one value for what eight would do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from paceline.core.stats import NINETY, deviation, half_width_ratio
from paceline.core.units import duration_text
from paceline.predict.step_law import Array, expected_maximum
from paceline.records import Estimate, JitterProbe

__all__ = [
    "SHOWN_S",
    "Jitter",
    "bursts",
    "calm_share",
    "jitter_lines",
    "jitter_of",
    "jitter_of_training",
    "jitter_rows",
    "on_most_nodes",
    "variation",
]

SHOWN_S = (0.05, 0.5)  # steps for which it is printed
_SHOWN_WORKERS = 8
_FEWEST_ROWS = 8  # side by side, of a series without pauses: longer steps are judged by rows of an eighth
_FEWEST_IN_BURST = 5
_WORTH_NAMING_RATIO = 0.02  # convention, of a step: what workers keep differing by less is not worth a word
_ONE_BURST_SD = 0.76  # √(π/2 − 1), of at_once: by how much one burst of two workers tells it wrong
_MORE_WORKERS_POWER = (
    0.38  # of (workers − 1), by which a burst of more is surer: maxima of up to 16 normal values
)


@dataclass(frozen=True, slots=True)
class Jitter:
    """Deviations as shares of a step of a certain length."""

    at_once: float
    alone: float
    paused: float = 0.0  # at least alone
    sd: float = 0.0  # of the logarithm of at_once: launches and bursts are few
    trained: bool = False  # told by the training itself, which holds what is its own already


def jitter_of(probes: Sequence[JitterProbe], step_s: float) -> Jitter | None:
    """What the probes on the most nodes say of a step of this length; None where none says anything."""
    found = [_of(probe, step_s) for probe in on_most_nodes(probes)]
    if not found:
        return None
    at_once, alone, paused, redrawn, kept = (fmean(part) for part in zip(*found, strict=True))
    return Jitter(at_once, alone, paused, math.sqrt(redrawn / len(found) + kept))


def on_most_nodes(probes: Sequence[JitterProbe]) -> list[JitterProbe]:
    """Those of the most nodes and workers, that hold enough to tell anything."""
    known = [probe for probe in probes if _pieces(probe).shape[1] >= _FEWEST_ROWS]
    most = max(((probe.nodes, probe.workers) for probe in known), default=None)
    return [probe for probe in known if (probe.nodes, probe.workers) == most]


def jitter_of_training(waited: Estimate, late_s: float, computed_s: float, workers: int) -> Jitter:
    """What the workers of a training differed by at once, that waited for each other in every step: of that, late_s for
    one that is always late."""
    ratio = (waited.value - late_s) / computed_s / _expected_maximum(workers)
    unsure = (half_width_ratio(waited) or 0.0) / NINETY
    return Jitter(max(0.0, ratio), 0.0, sd=min(1.0, unsure), trained=True)


def jitter_rows(probes: Sequence[JitterProbe]) -> list[dict[str, float | int]]:
    """What steps of 50 ms and half a second differ by on the most nodes that were probed, if that was long enough."""
    most = max(((probe.nodes, probe.workers) for probe in probes), default=(0, 0))
    lasted_s = min((sum(series) for probe in probes for series in probe.pieces_s), default=0.0)
    found = []
    for step_s in SHOWN_S:
        jitter = jitter_of(probes, step_s)
        if jitter is not None and step_s * _FEWEST_ROWS <= lasted_s:
            found.append(
                {
                    "nodes": most[0],
                    "workers": most[1],
                    "step_s": step_s,
                    "at_once_ratio": jitter.at_once,
                    "alone_ratio": jitter.alone,
                }
            )
    return found


def jitter_lines(probes: Sequence[JitterProbe]) -> tuple[str, ...]:
    """What workers that computed the same at the same time tell of more of them, in one line."""
    rows = jitter_rows(probes)
    if not rows:
        return ()
    parts = [f"{row['at_once_ratio']:.1%} in steps of {duration_text(row['step_s'])}" for row in rows]
    more = [f"{row['at_once_ratio'] * _expected_maximum(_SHOWN_WORKERS):.1%}" for row in rows]
    return (
        f"{rows[0]['workers']} workers that computed the same without communicating differed at the same moment by "
        f"{' and '.join(parts)}: of {_SHOWN_WORKERS} the slowest would take {' and '.join(more)} longer",
        *_slower_lines(probes),
    )


def _slower_lines(probes: Sequence[JitterProbe]) -> tuple[str, ...]:
    """Which worker was slower than the others in all bursts, if one was."""
    each = [bursts(probe) for probe in on_most_nodes(probes) if probe.burst is not None]
    if not each or math.sqrt(fmean(_kept(found)[0] for found in each)) < _WORTH_NAMING_RATIO:
        return ()
    ratios = np.mean([found.mean(axis=(1, 2)) / found.mean() for found in each], axis=0)
    worker = int(ratios.argmax())
    return (f"worker {worker} computed {ratios[worker] - 1.0:.1%} longer than all in the mean, all the time",)


def variation(jitter: Jitter, steps_ratio: float | None) -> float:
    """By how much workers of a training differ at once, whose single worker's steps differ by `steps_ratio`.

    What these differ by beyond the machine, drifts and pauses included, is the script's own, on every worker apart; a
    machine that was calmer while they were measured was calmer altogether.
    """
    if steps_ratio is None or jitter.trained:
        return jitter.at_once
    if (share := calm_share(jitter, steps_ratio)) < 1.0:
        return jitter.at_once * share
    machine = max(jitter.alone, jitter.paused)
    return math.hypot(jitter.at_once, math.sqrt(max(0.0, steps_ratio**2 - machine**2)))


def calm_share(jitter: Jitter, steps_ratio: float) -> float:
    """What a training has of the machine's unsteadiness whose steps differ by less: a calmer minute, or much sleep."""
    return min(1.0, steps_ratio / jitter.alone) if jitter.alone > 0 else 1.0


def _pieces(probe: JitterProbe) -> Array:
    """[workers × pieces], as many as every worker has."""
    shortest = min((len(series) for series in probe.pieces_s), default=0)
    if len(probe.pieces_s) < 2:
        return np.zeros((1, 0))
    return np.array([series[:shortest] for series in probe.pieces_s], dtype=float)


def _of(probe: JitterProbe, step_s: float) -> tuple[float, float, float, float, float]:
    """The deviations, and how sure the first is: the variance of its logarithm, by what differs from burst to burst and
    by what workers keep from the first to the last one. Of that, so many workers are so many values, however long."""
    each = bursts(probe)
    workers, count, burst = each.shape
    longest = burst // _FEWEST_ROWS if probe.burst is None else burst
    length = min(longest, max(1, round(step_s / float(each.mean()))))
    rows = _rows(each, length)
    slowest = float(rows.max(axis=0).mean() / rows.mean()) - 1.0
    short = min(length, max(1, burst // _FEWEST_IN_BURST))
    uneven = each
    if count > 1:  # what every pause does is no noise
        uneven = each - each.mean(axis=(0, 1)) + each.mean()
    alone = _alone(_rows(uneven, short), short) * math.sqrt(short / length)
    paused = max(alone, _alone(_rows(uneven, length)[:, :, ::length].reshape(workers, 1, -1), 1))
    at_once = slowest / _expected_maximum(workers)
    if probe.burst is None:
        return at_once, alone, paused, 0.0, 0.0
    kept, at_all = _kept(rows)
    share = kept / at_all if at_all > 0 else 0.0
    chance = (_ONE_BURST_SD / (workers - 1) ** _MORE_WORKERS_POWER) ** 2
    return at_once, alone, paused, chance * (1.0 - share) ** 2 / count, chance * share**2


def _kept(rows: Array) -> tuple[float, float]:
    """By how much workers differ in all bursts alike, less what chance makes of so many bursts, and by how much at all:
    variances, as shares."""
    workers, count, _ = rows.shape
    apart = (rows - rows.mean(axis=0)) / rows.mean()
    at_all = float((apart**2).sum(axis=0).mean()) / (workers - 1)
    each = apart.mean(axis=2)
    lasting = each.mean(axis=1, keepdims=True)
    if count < 2:
        return 0.0, at_all
    redrawn = float(((each - lasting) ** 2).sum()) / (count - 1) / (workers - 1)
    kept = float((lasting**2).sum()) / (workers - 1) - redrawn / count
    return max(0.0, min(kept, at_all)), at_all


def bursts(probe: JitterProbe) -> Array:
    """[workers × bursts × pieces]: one burst, where there was no pause."""
    pieces = _pieces(probe)
    workers, count = pieces.shape
    burst = max(1, min(count, probe.burst or count))
    return pieces[:, : count // burst * burst].reshape(workers, -1, burst)


def _rows(each: Array, length: int) -> Array:
    """What so many pieces in a row take, from every piece of a burst on: [workers × bursts × rows]."""
    whole = np.concatenate([np.zeros((*each.shape[:2], 1)), np.cumsum(each, axis=2)], axis=2)
    return np.asarray(whole[..., length:] - whole[..., :-length])


def _alone(rows: Array, length: int) -> float:
    """The mean deviation, as a share, of up to eight rows in a row that share no piece."""
    together, places = _FEWEST_ROWS * length, rows.shape[2]
    apart = [
        list(row[first : first + together : length])
        for row in rows.reshape(-1, places)
        for first in range(0, places, together)
    ]
    known = [found for group in apart if (found := deviation(group)) is not None]
    return fmean(known) / float(rows.mean()) if known else 0.0


def _expected_maximum(workers: int) -> float:
    return float(expected_maximum(np.array([float(workers)]))[0])
