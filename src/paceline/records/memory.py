"""What a worker's memory holds, as it was measured, and what it would hold elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from paceline.core.estimate import Estimate

Fits = Literal["yes", "no", "unsure"]


@dataclass(frozen=True, slots=True)
class TensorPeak:
    """The most bytes of tensors in one part of a step, and the gradients among them."""

    total_bytes: int
    gradients_bytes: int


@dataclass(frozen=True, slots=True)
class ShapeCount:
    """Parameters that FSDP cuts alike: rows, bytes of a row, whether they are trained, and how many there are."""

    rows: int
    row_bytes: int
    trained: bool
    count: int


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """One worker's tensors in one step, each byte once; what is spread over workers, as far as it is here."""

    parameters_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    buffers_bytes: int
    activations_bytes: int | None  # when backward begins: what it needs, the batch, the loss
    buckets_bytes: int | None  # DDP's, beside gradients; None without DDP
    gathered_bytes: int | None  # others' parts of the weights, when backward begins
    forward: TensorPeak
    backward: TensorPeak
    optimizer: TensorPeak
    peak_bytes: int  # the largest of the three
    held_bytes: (
        int | None
    )  # what the process (since torch was imported) or the allocator of the device held then
    device_bytes: int | None  # all that the device has; None on CPU
    shapes: tuple[ShapeCount, ...] = ()  # of whole parameters
    largest_part_bytes: int | None = None  # of what lists of layers hold; None: there are none
    no_part_bytes: int | None = None  # of the parameters that are in none of them


@dataclass(frozen=True, slots=True)
class MemoryForecast:
    """What the fullest worker would hold at a setting that was not measured, and whether that fits."""

    workers: int
    per_worker_batch: int
    strategy: str
    varied: tuple[tuple[str, str], ...]  # the other flags, as they were measured
    tensors_bytes: Estimate
    held_bytes: Estimate | None  # with what no tensor holds; None: not measured on any worker
    limit_bytes: int | None
    fits: Fits | None  # None: no limit is known
    measured: tuple[str, ...] = ()  # the settings that it rests on


@dataclass(frozen=True, slots=True)
class LargestBatch:
    """The largest per-worker batch that ran at one setting, and the smallest that did not."""

    workers: int
    varied: tuple[tuple[str, str], ...]
    batch: int | None  # None: none fitted
    too_large: int | None  # None: none was found
    why: str | None  # what happened there
    safe_batch: int | None  # with a margin
    runs: int
    samples_per_s: float | None
