"""Seconds of one collective: bytes, workers and a Link in, seconds out. What a whole step exchanges is step_law's.

ring all-reduce            2(N−1) rounds of n/N bytes
reduce-scatter, all-gather (N−1) rounds of n/N bytes
bus bandwidth              n/t · 2(N−1)/N (all-reduce)
"""

from __future__ import annotations

from paceline.records import Link

__all__ = ["bus_bytes_per_s", "gather_s", "ring_all_reduce_s"]


def ring_all_reduce_s(size_bytes: float, workers: int, link: Link) -> float:
    """Seconds for one ring all-reduce: 2(n−1) rounds of size/n bytes each."""
    rounds = 2 * (workers - 1)
    return rounds * (link.latency_s + size_bytes / workers / link.bytes_per_s)


def gather_s(size_bytes: float, workers: int, link: Link) -> float:
    """Seconds for one all-gather (or reduce-scatter) of size bytes in all: n−1 rounds of size/n bytes."""
    return (workers - 1) * (link.latency_s + size_bytes / workers / link.bytes_per_s)


def bus_bytes_per_s(size_bytes: float, workers: int, seconds: float) -> float:
    """Bus bandwidth of an all-reduce, as nccl-tests defines it: what the links themselves carried."""
    return size_bytes / seconds * 2 * (workers - 1) / workers
