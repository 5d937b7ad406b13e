"""Which batch to try next, until the largest that fits is known: one that ran, and one more that did not.

    first       the smallest that is asked for; where it does not fit, half of it
    then        where a line through what was held meets the limit: from one run by the forecast of its memory, at
                most four times its batch, from two by what they held
    at the end  one more than the largest that ran; a little less than the smallest that did not

Memory that is held jumps (the allocator takes blocks): so real runs decide, and the margin is what they cannot tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.predict.memory import Known, forecast
from paceline.records import MemoryUse, State

__all__ = ["MARGIN_RATIO", "MOST_RUNS", "Tried", "largest", "next_batch", "safe_batch", "smallest_failed"]

MOST_RUNS = 6
MARGIN_RATIO = 0.05  # of the largest batch that ran: what steps and evaluations that nobody ran may take more
_BACK_RATIO = 0.02
_STEP_RATIO = 0.95  # of the way to the limit: later steps hold a little more, and a run that fits tells more
_FURTHEST = 4  # times its batch: further than that one run tells little


@dataclass(frozen=True, slots=True)
class Tried:
    """One run of the search."""

    batch: int
    state: State
    reason: str | None
    use: MemoryUse | None
    workers: int
    strategy: str
    samples_per_s: float | None = None


def largest(tried: Sequence[Tried]) -> Tried | None:
    """The largest batch that ran below all that did not."""
    failed = smallest_failed(tried)
    ran = [t for t in tried if t.state == "ok" and (failed is None or t.batch < failed.batch)]
    return max(ran, key=lambda t: t.batch, default=None)


def smallest_failed(tried: Sequence[Tried]) -> Tried | None:
    """The smallest batch that did not run."""
    return min((t for t in tried if t.state != "ok"), key=lambda t: t.batch, default=None)


def next_batch(tried: Sequence[Tried], *, first: int, limit_bytes: int | None) -> int | None:
    """The batch to try now; None where the answer is known, or as many runs were made as are allowed."""
    if not tried:
        return first
    best, failed = largest(tried), smallest_failed(tried)
    if len(tried) >= MOST_RUNS or (failed is not None and failed.state != "oom"):
        return None  # what is no lack of memory is not cured by a smaller batch
    if best is None:
        assert failed is not None
        half = failed.batch // 2
        return half if half else None
    if failed is not None and failed.batch == best.batch + 1:
        return None
    guess = _guess([t for t in tried if t.state == "ok"], limit_bytes)
    if failed is None:
        return max(best.batch + 1, 2 * best.batch if guess is None else guess)
    if guess is not None and guess < failed.batch:
        return max(best.batch + 1, guess)
    fails = sum(t.state == "oom" for t in tried)  # what was held told a little too much: back by 2%, 4%, 8%
    back = max(1, round(_BACK_RATIO * (1 << (fails - 1)) * failed.batch))
    return max(failed.batch - back, (best.batch + failed.batch) // 2)


def safe_batch(batch: int) -> int:
    """With a margin below the largest that ran."""
    return max(1, int(batch * (1 - MARGIN_RATIO)))


def _guess(ran: Sequence[Tried], limit_bytes: int | None) -> int | None:
    """The largest batch that should fit; None where memory was not seen."""
    limit = limit_bytes or next((t.use.device_bytes for t in ran if t.use and t.use.device_bytes), None)
    seen = sorted(
        ((t.batch, t.use.held_bytes) for t in ran if t.use and t.use.held_bytes is not None), reverse=True
    )
    if limit is None or not seen:
        return None
    if len(seen) > 1:
        (larger, more), (smaller, less) = seen[:2]
        each = max((more - less) / (larger - smaller), _tensors_each(ran, larger, smaller))
        return None if each <= 0 else larger + int(_STEP_RATIO * (limit - more) / each)
    return _forecast_batch(next(t for t in ran if t.use), limit)


def _tensors_each(ran: Sequence[Tried], larger: int, smaller: int) -> float:
    """Bytes of tensors that a sample adds, which no allocator disturbs."""
    peaks = {t.batch: t.use.peak_bytes for t in ran if t.use}
    return (peaks[larger] - peaks[smaller]) / (larger - smaller)


def _forecast_batch(one: Tried, limit: int) -> int:
    """By bisection: what is forecast to be held grows with the batch."""
    assert one.use is not None
    known = [Known("", one.workers, one.batch, one.strategy, (), one.use)]

    def fits(batch: int) -> bool:
        found = forecast(known, workers=one.workers, batch=batch, strategy=one.strategy, limit_bytes=limit)
        return (found.held_bytes or found.tensors_bytes).value <= limit

    low, high = one.batch, _FURTHEST * one.batch + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
