"""Buckets ready and sent -> exposed seconds: one lane, strictly in order.

    E_j = max(R_j, E_{j−1}) + c_j          E_K = max_j [R_j + Σ_{i≥j} c_i]          exposed = max(0, E_K − F)

R_j: when the last gradient of bucket j is ready; c_j: what sending it costs; F: the end of backward. The argument of
the maximum is the bucket that binds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paceline.records import BucketReady

__all__ = ["BUCKET_BYTES", "FIRST_BUCKET_BYTES", "Sent", "Timeline", "bucket_sizes", "timeline"]

FIRST_BUCKET_BYTES = 1_048_576  # torch's DDP: a small first bucket so that the exchange starts early
BUCKET_BYTES = 26_214_400


@dataclass(frozen=True, slots=True)
class Sent:
    """One bucket: when it was ready, when its exchange began and ended, seconds after the step began."""

    size_bytes: int
    ready_s: float
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """All buckets of one step; exposed_s is what the step is longer than its computation; binding, the late bucket."""

    sent: tuple[Sent, ...]
    exposed_s: float
    binding: int | None


def timeline(
    buckets: Sequence[BucketReady], backward_end_s: float, cost_s: Callable[[float], float]
) -> Timeline:
    """The exchange of one step. cost_s: seconds to exchange so many bytes."""
    sent: list[Sent] = []
    free, binding, run_start = 0.0, None, 0
    for j, bucket in enumerate(buckets):
        start = max(bucket.ready_s, free)
        if bucket.ready_s >= free:
            run_start = j  # the lane was idle: this bucket begins a busy stretch
        free = start + cost_s(float(bucket.size_bytes))
        sent.append(Sent(bucket.size_bytes, bucket.ready_s, start, free))
        binding = run_start
    exposed = max(0.0, free - backward_end_s) if sent else 0.0
    return Timeline(tuple(sent), exposed, binding if exposed > 0 else None)


def bucket_sizes(
    tensor_bytes: Sequence[int], *, first_bytes: int = FIRST_BUCKET_BYTES, limit_bytes: int = BUCKET_BYTES
) -> list[int]:
    """How DDP groups tensors in the order their gradients arrive: a bucket closes when it reaches its limit."""
    sizes: list[int] = []
    current = 0
    for tensor in tensor_bytes:
        current += tensor
        if current >= (first_bytes if not sizes else limit_bytes):
            sizes.append(current)
            current = 0
    return [*sizes, current] if current else sizes
