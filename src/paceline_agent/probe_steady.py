"""How steadily workers compute at the same time, without any exchange: the seconds of equal pieces of work.

    piece    products of matrices, as many as take the slowest worker about 10 ms; the same on every worker
    series   piece after piece on all workers, from one barrier on

Of the workers of a synchronous step the slowest counts. By how much that is slower, and whether it is slow together
with the others (a machine's slow minute) or by itself, no single worker can tell.
"""

from __future__ import annotations

import math
from time import perf_counter
from typing import Any, Callable

_SIDE = {"cpu": 192, "cuda": 2048}
_PIECE_S = 0.01
_TRIED = 10


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


def series(run: Callable[[int], float], calls: int, seconds: float) -> list[float]:
    """Pieces one after the other for so many seconds, in microseconds' precision."""
    run(calls)
    found, end = [], perf_counter() + seconds
    while perf_counter() < end:
        found.append(round(run(calls), 6))
    return found
