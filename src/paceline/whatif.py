"""What a change would do to a step, from the buckets that hooks saw: link, bucket size, compression, accumulation.

Each what-if is the timeline run again with one thing changed; the gain is the step before over the step after. Without
hooks the fitted law is changed instead: links r times as fast divide x by r, compression multiplies it, bucket_ratio
times larger buckets divide the latencies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from paceline.collectives import two_level_ring_s
from paceline.fit import Law
from paceline.records import BucketReady, Link
from paceline.step_law import NAMES
from paceline.timeline import timeline

__all__ = [
    "Step",
    "compressed",
    "faster_link",
    "predicted_step_s",
    "rebucketed",
    "with_accumulation",
    "with_placement",
]


@dataclass(frozen=True, slots=True)
class Step:
    """A step as it was seen on one worker, and where it is to run."""

    buckets: tuple[BucketReady, ...]
    backward_end_s: float
    rest_s: float  # optimizer and whatever follows the exchange
    workers: int
    nodes: int
    inside: Link
    between: Link
    micro_steps: int = 1
    bytes_ratio: float = 1.0  # of the gradients that is sent
    cast_s: float = 0.0  # what making them smaller costs


def predicted_step_s(step: Step) -> float:
    """(k−1) forward and backward + max(end of backward, end of exchange) + the rest."""
    run = timeline(step.buckets, step.backward_end_s, _cost(step))
    return step.micro_steps * step.backward_end_s + run.exposed_s + step.rest_s + step.cast_s


def faster_link(step: Step, factor: float) -> Step:
    """Every link carries `factor` times as much; latency stays."""
    return replace(
        step,
        inside=replace(step.inside, bytes_per_s=step.inside.bytes_per_s * factor),
        between=replace(step.between, bytes_per_s=step.between.bytes_per_s * factor),
    )


def compressed(step: Step, bytes_ratio: float, *, cast_s: float = 0.0) -> Step:
    """Gradients sent smaller: 0.5 for fp16 or bf16."""
    return replace(step, bytes_ratio=bytes_ratio, cast_s=cast_s)


def with_accumulation(step: Step, micro_steps: int) -> Step:
    """Exchange only after so many micro-steps; a step then holds as many times the samples."""
    return replace(step, micro_steps=micro_steps)


def with_placement(step: Step, workers: int, nodes: int) -> Step:
    """The same step on another number of workers or nodes."""
    return replace(step, workers=workers, nodes=nodes)


def rebucketed(step: Step, limit_bytes: int) -> Step:
    """Other buckets, as if gradients became ready evenly inside each bucket that was seen."""
    pieces: list[BucketReady] = []
    before = 0.0
    for bucket in step.buckets:
        parts = max(1, bucket.size_bytes // max(1, limit_bytes // 8))
        for i in range(1, parts + 1):
            ready = before + (bucket.ready_s - before) * i / parts
            pieces.append(BucketReady(bucket.size_bytes // parts, ready))
        before = bucket.ready_s
    joined: list[BucketReady] = []
    size = 0
    for piece in pieces:
        size += piece.size_bytes
        if size >= limit_bytes:
            joined.append(BucketReady(size, piece.ready_s))
            size = 0
    if size:
        joined.append(BucketReady(size, pieces[-1].ready_s))
    return replace(step, buckets=tuple(joined))


def changed_law(
    law: Law, *, link_ratio: float = 1.0, bytes_ratio: float = 1.0, bucket_ratio: float = 1.0
) -> Law:
    """The law of the same training with faster links, smaller gradients or larger buckets."""
    shift = np.zeros(len(NAMES))
    for name in ("x_i", "x_n"):
        shift[NAMES.index(name)] = np.log(bytes_ratio / link_ratio)
    for name in ("a_i", "a_n"):
        shift[NAMES.index(name)] = -np.log(bucket_ratio)
    members = []
    for member in law.members:
        theta = member.theta.copy()
        theta[:, : len(NAMES)] += shift
        members.append(replace(member, theta=theta))
    return replace(law, members=tuple(members))


def _cost(step: Step) -> Callable[[float], float]:
    def seconds(size_bytes: float) -> float:
        sent = size_bytes * step.bytes_ratio
        return two_level_ring_s(sent, step.workers, step.nodes, inside=step.inside, between=step.between)

    return seconds
