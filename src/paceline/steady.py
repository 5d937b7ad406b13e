"""By how much workers differ at the same moment, from pieces of work that a probe timed on all of them together.

A step of L seconds is as many pieces in a row as take L; of K workers, over all such rows:

    at once     (mean of the slowest / mean of all − 1) / m(K)       m: expected maximum of K standard normal values
    alone       the deviation of one worker's rows, over eight in a row: as long as a short launch

Steps of one worker show both what is its own and what a machine's slow minute does to all: `alone`. Waiting for each
other costs what is at once. Hosts that keep another speed for seconds differ more at once than any of them alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from paceline.records import SteadyProbe
from paceline.stats import deviation
from paceline.step_law import Array, expected_maximum
from paceline.units import duration_text

__all__ = ["Steadiness", "steadiness", "steady_lines", "steady_rows", "variation"]

_SHOWN_S = (0.05, 0.5)
_SHOWN_WORKERS = 8
_FEWEST_ROWS = 8  # side by side, of a series: longer steps are judged by rows of an eighth


@dataclass(frozen=True, slots=True)
class Steadiness:
    """Deviations as shares of a step of a certain length."""

    at_once: float
    alone: float


def steadiness(probes: Sequence[SteadyProbe], step_s: float) -> Steadiness | None:
    """What the probes on the most nodes say of a step of this length; None where none says anything."""
    known = [probe for probe in probes if _pieces(probe).shape[1] >= _FEWEST_ROWS]
    if not known:
        return None
    most = max((probe.nodes, probe.workers) for probe in known)
    found = [_of(_pieces(probe), step_s) for probe in known if (probe.nodes, probe.workers) == most]
    return Steadiness(fmean(each.at_once for each in found), fmean(each.alone for each in found))


def steady_rows(probes: Sequence[SteadyProbe]) -> list[dict[str, float | int]]:
    """What steps of 50 ms and half a second differ by on the most nodes that were probed, if that was long enough."""
    most = max(((probe.nodes, probe.workers) for probe in probes), default=(0, 0))
    lasted_s = min((sum(series) for probe in probes for series in probe.pieces_s), default=0.0)
    found = []
    for step_s in _SHOWN_S:
        steady = steadiness(probes, step_s)
        if steady is not None and step_s * _FEWEST_ROWS <= lasted_s:
            found.append(
                {
                    "nodes": most[0],
                    "workers": most[1],
                    "step_s": step_s,
                    "at_once_ratio": steady.at_once,
                    "alone_ratio": steady.alone,
                }
            )
    return found


def steady_lines(probes: Sequence[SteadyProbe]) -> tuple[str, ...]:
    """What workers that computed the same at the same time tell of more of them, in one line."""
    rows = steady_rows(probes)
    if not rows:
        return ()
    parts = [f"{row['at_once_ratio']:.1%} in steps of {duration_text(row['step_s'])}" for row in rows]
    more = [f"{row['at_once_ratio'] * _expected_maximum(_SHOWN_WORKERS):.1%}" for row in rows]
    return (
        f"{rows[0]['workers']} workers that computed the same without exchanging differed at the same moment by "
        f"{' and '.join(parts)}: of {_SHOWN_WORKERS} the slowest would take {' and '.join(more)} longer",
    )


def variation(steady: Steadiness, steps_ratio: float | None) -> float:
    """By how much workers of a training differ at once, whose single worker's steps differ by `steps_ratio`.

    What these differ by beyond the machine is the script's own, on every worker apart; a machine that was calmer while
    they were measured was calmer altogether.
    """
    if steps_ratio is None:
        return steady.at_once
    if steps_ratio < steady.alone:
        return steady.at_once * steps_ratio / steady.alone
    return math.hypot(steady.at_once, math.sqrt(steps_ratio**2 - steady.alone**2))


def _pieces(probe: SteadyProbe) -> Array:
    """[workers × pieces], as many as every worker has."""
    shortest = min((len(series) for series in probe.pieces_s), default=0)
    if len(probe.pieces_s) < 2:
        return np.zeros((1, 0))
    return np.array([series[:shortest] for series in probe.pieces_s], dtype=float)


def _of(pieces: Array, step_s: float) -> Steadiness:
    workers, count = pieces.shape
    longest = count // _FEWEST_ROWS
    length = min(longest, max(1, round(step_s / float(pieces.mean()))))
    whole = np.concatenate([np.zeros((workers, 1)), np.cumsum(pieces, axis=1)], axis=1)
    rows, together = whole[:, length:] - whole[:, :-length], _FEWEST_ROWS * length
    slowest = float(rows.max(axis=0).mean() / rows.mean()) - 1.0
    apart = [
        list(row[first : first + together : length]) for row in rows for first in range(0, count, together)
    ]
    known = [found for group in apart if (found := deviation(group)) is not None]
    return Steadiness(slowest / _expected_maximum(workers), fmean(known) / float(rows.mean()))


def _expected_maximum(workers: int) -> float:
    return float(expected_maximum(np.array([float(workers)]))[0])
