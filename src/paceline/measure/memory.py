"""Of several workers, or several runs, the one whose tensors take most: it is the first that would not fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from paceline.records import MemoryUse, WorkerRecord

__all__ = ["fullest", "largest"]


def fullest(workers: Sequence[WorkerRecord]) -> MemoryUse | None:
    """The fullest worker's; None where one of them was not seen."""
    return largest(worker.memory for worker in workers) if all(w.memory for w in workers) else None


def largest(uses: Iterable[MemoryUse | None]) -> MemoryUse | None:
    """That of the highest peak."""
    return max((use for use in uses if use is not None), key=lambda use: use.peak_bytes, default=None)
