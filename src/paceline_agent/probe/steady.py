"""How steadily workers compute at the same time, without any exchange: the seconds of equal pieces of work.

    piece    products of matrices, as many as take the slowest worker about 10 ms; the same on every worker
    burst    pieces one after the other, a second or an eighth of all; a pause before each, in which all wait for all
    series   burst after burst on all workers

Of the workers of a synchronous step the slowest counts. By how much that is slower, and whether it is slow together
with the others (a machine's slow minute) or by itself, no single worker can tell.

The pauses matter: who waits gives its core away, and is put onto another one, or beside another neighbour, when it goes
on. A worker of a training waits in every step and gets its speed anew in every step; one that computes on and on keeps
the speed that it has.
"""

from __future__ import annotations

import math
from time import perf_counter, sleep
from typing import Any, Callable

_SIDE = {"cpu": 192, "cuda": 2048}
_PIECE_S = 0.01
_TRIED = 10
_BURST_S, _PAUSE_S = 1.0, 0.02
_FEWEST_BURSTS, _FEWEST_PIECES = 8, 5  # a deviation needs five


def piece(place: Any) -> Callable[[int], float]:
    """`piece(calls)`: the seconds of so many products on this worker's device."""
    import torch

    side = _SIDE[place.type]
    left, right = (torch.randn((side, side), device=place) for _ in range(2))
    out = torch.empty_like(left)

    def run(calls: int) -> float:
        begun = perf_counter()
        for _ in range(calls):
            torch.mm(left, right, out=out)
        if place.type == "cuda":
            torch.cuda.synchronize(place)
        return perf_counter() - begun

    return run


def calls_of(run: Callable[[int], float]) -> int:
    """How many products make a piece, by this worker alone."""
    run(_TRIED)
    once = max(1e-7, min(run(1) for _ in range(_TRIED)))
    return max(1, math.ceil(_PIECE_S / once))


def pieces_of(run: Callable[[int], float], calls: int, seconds: float) -> int:
    """How many pieces make a burst, by this worker alone: a CPU limit counts, which single products do not show."""
    once = sum(run(calls) for _ in range(_TRIED)) / _TRIED
    return max(_FEWEST_PIECES, round(min(_BURST_S, seconds / _FEWEST_BURSTS) / once))


def series(
    run: Callable[[int], float], calls: int, pieces: int, seconds: float, any_of: Callable[[bool], bool]
) -> list[float]:
    """Bursts for so many seconds, the same number on all workers: `any_of` says whether one of them is at its end."""
    found: list[float] = []
    end = perf_counter() + seconds
    while not any_of(perf_counter() >= end):
        sleep(_PAUSE_S)  # the slowest has waited for nobody
        found += [round(run(calls), 6) for _ in range(pieces)]
    return found
