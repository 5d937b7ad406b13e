"""What each worker has of parameters, gradients and optimizer state under a strategy: arithmetic, nothing fitted.

             weights        gradients              optimizer state of         beyond them
    none     all            all                    all                        –
    ddp      all            all, always            all                        buckets beside gradients
    zero1    all            all, always            the fullest share          as ddp
    fsdp2    1/N of rows    1/N of rows            its rows                   what is in no part, and twice one part
    hsdp     as fsdp2, of the workers that share one copy

FSDP2 cuts every parameter by rows: the first worker has ⌈rows / N⌉ of them. ZeroRedundancyOptimizer deals whole
parameters out, the largest first, each to the worker that has least. While a part computes its weights are whole, and
for a moment there twice: as they came, and as they are used.
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline.records import MemoryUse, ShapeCount

__all__ = ["SHARDED", "STRATEGIES", "Share", "share", "transient_bytes"]

STRATEGIES = ("ddp", "zero1", "fsdp2", "hsdp")
SHARDED = ("fsdp2", "hsdp")


@dataclass(frozen=True, slots=True)
class Share:
    """Bytes of parameters on the fullest worker: all of them, the trained ones, and those whose state it keeps."""

    parameters_bytes: int
    trained_bytes: int
    kept_bytes: int


def share(shapes: tuple[ShapeCount, ...], strategy: str, workers: int) -> Share:
    """What the fullest of so many workers has. hsdp: two copies, each spread over half of the workers."""
    parts = {"fsdp2": workers, "hsdp": max(1, workers // 2)}.get(strategy, 1)
    trained = sum(_rows(shape, parts) for shape in shapes if shape.trained)
    frozen = sum(_rows(shape, parts) for shape in shapes if not shape.trained)
    kept = _fullest(shapes, workers) if strategy == "zero1" else trained
    return Share(trained + frozen, trained, kept)


def transient_bytes(use: MemoryUse, strategy: str, workers: int) -> int:
    """Weights of others that are here when a step's memory peaks."""
    if strategy not in SHARDED or workers < 2 or (strategy == "hsdp" and workers < 4):
        return 0
    return (use.no_part_bytes or 0) + 2 * (use.largest_part_bytes or 0)


def _rows(shape: ShapeCount, parts: int) -> int:
    return -(-shape.rows // parts) * shape.row_bytes * shape.count


def _fullest(shapes: tuple[ShapeCount, ...], workers: int) -> int:
    sizes = sorted((s.rows * s.row_bytes for s in shapes if s.trained for _ in range(s.count)), reverse=True)
    dealt = [0] * workers
    for size in sizes:
        dealt[dealt.index(min(dealt))] += size
    return max(dealt)
