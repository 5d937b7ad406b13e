"""Seconds of one collective: bytes, workers and a Link in, seconds out.

ring all-reduce            2(N−1) rounds of n/N bytes
halving-doubling           2⌈log2 N⌉ rounds, the same bytes
double tree                2[(p−1) α_i + log2(M) α_n] + n/B, flat in N
two-level ring             2(N−M) α_i + 2(M−1) α_n + 2(N−1)/N · n / min(B_i, B_n)
hierarchical               a ring inside each node, then a ring between nodes over the shares
reduce-scatter, all-gather (N−1) rounds of n/N bytes
bus bandwidth              n/t · 2(N−1)/N (all-reduce), n/t · (N−1)/N (reduce-scatter, all-gather)
"""

from __future__ import annotations

from math import ceil, log2

from paceline.records import Link

__all__ = [
    "accumulated_step_s",
    "bus_bytes_per_s",
    "fsdp_exchanged_bytes",
    "gather_s",
    "halving_doubling_s",
    "hierarchical_all_reduce_s",
    "power_sgd_bytes",
    "ring_all_reduce_s",
    "sync_batch_norm_s",
    "tree_all_reduce_s",
    "two_level_ring_s",
]


def ring_all_reduce_s(size_bytes: float, workers: int, link: Link) -> float:
    """Seconds for one ring all-reduce: 2(n−1) rounds of size/n bytes each."""
    rounds = 2 * (workers - 1)
    return rounds * (link.latency_s + size_bytes / workers / link.bytes_per_s)


def halving_doubling_s(size_bytes: float, workers: int, link: Link) -> float:
    """Seconds for recursive halving and doubling: fewer rounds than a ring, the same bytes."""
    moved = 2 * (workers - 1) / workers * size_bytes
    return 2 * ceil(log2(workers)) * link.latency_s + moved / link.bytes_per_s


def tree_all_reduce_s(size_bytes: float, workers: int, nodes: int, *, inside: Link, between: Link) -> float:
    """Seconds for a double tree over nodes: logarithmic latency, bandwidth that does not depend on the count."""
    if workers == 1:
        return 0.0
    per_node = ceil(workers / nodes)
    rate = between.bytes_per_s if nodes > 1 else inside.bytes_per_s
    return 2 * ((per_node - 1) * inside.latency_s + log2(nodes) * between.latency_s) + size_bytes / rate


def two_level_ring_s(size_bytes: float, workers: int, nodes: int, *, inside: Link, between: Link) -> float:
    """Seconds for one ring through all workers of all nodes: its slowest link sets the pace."""
    rate = inside.bytes_per_s if nodes == 1 else between.bytes_per_s
    if 1 < nodes < workers:
        rate = min(inside.bytes_per_s, between.bytes_per_s)
    hops = 2 * (workers - nodes) * inside.latency_s + 2 * (nodes - 1) * between.latency_s
    return hops + 2 * (workers - 1) / workers * size_bytes / rate


def hierarchical_all_reduce_s(
    size_bytes: float, workers: int, nodes: int, *, inside: Link, between: Link, adapters: int = 1
) -> float:
    """Seconds for a ring inside every node, then a ring between nodes over as many adapters as there are."""
    per_node = ceil(workers / nodes)
    lanes = Link(between.latency_s, between.bytes_per_s * min(adapters, per_node))
    return ring_all_reduce_s(size_bytes, per_node, inside) + ring_all_reduce_s(size_bytes, nodes, lanes)


def gather_s(size_bytes: float, workers: int, link: Link) -> float:
    """Seconds for one all-gather (or reduce-scatter) of size bytes in all: n−1 rounds of size/n bytes."""
    return (workers - 1) * (link.latency_s + size_bytes / workers / link.bytes_per_s)


def bus_bytes_per_s(size_bytes: float, workers: int, seconds: float) -> float:
    """Bus bandwidth of an all-reduce, as nccl-tests defines it: what the links themselves carried."""
    return size_bytes / seconds * 2 * (workers - 1) / workers


def sync_batch_norm_s(channels: list[int], workers: int, link: Link) -> float:
    """Seconds that SyncBatchNorm adds: per layer an all-gather forward, an all-reduce backward, neither hidden."""
    return sum(
        gather_s(4.0 * (2 * c + 1) * workers, workers, link) + ring_all_reduce_s(8.0 * c, workers, link)
        for c in channels
    )


def fsdp_exchanged_bytes(parameter_bytes: float, workers: int) -> float:
    """Bytes that cross one worker's link per step under full sharding: two all-gathers and one reduce-scatter."""
    return 3.0 * (workers - 1) / workers * parameter_bytes


def power_sgd_bytes(shapes: list[tuple[int, int]], rank: int) -> float:
    """Bytes of a PowerSGD exchange: two factors of each matrix, in fp32."""
    return sum(4.0 * rank * (rows + columns) for rows, columns in shapes)


def accumulated_step_s(forward_backward_s: float, micro_steps: int, last_step_s: float) -> float:
    """Seconds of a step that exchanges only after its last micro-step: (k−1) t_fb + T."""
    return (micro_steps - 1) * forward_backward_s + last_step_s
