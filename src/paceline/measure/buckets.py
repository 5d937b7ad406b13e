"""When the gradient buckets of a step are ready, sent and done: seconds after the step began.

    sent_j  = max(ready_j, sent_(j-1))                 DDP sends buckets in order: a bucket waits for those before it
    begin_j = max(sent_j, done_(j-1))                  one after another on the same link
    done_j  = begin_j + busy_s · size_j / Σ size       the measured time under way, shared out by size

Readiness and the time under way are measured; the order is DDP's rule; when each bucket is done follows from the three.
The bucket that binds is the first of the last stretch without a pause: were it ready earlier, all after it would be.
"""

from __future__ import annotations

from collections.abc import Sequence

from paceline.records import BucketReady, BucketSent

__all__ = ["timeline"]


def timeline(buckets: Sequence[BucketReady], busy_s: float | None) -> tuple[BucketSent, ...]:
    """The buckets of one step in the order of sending; empty where the time under way is unknown or nothing is sent."""
    total = sum(bucket.size_bytes for bucket in buckets)
    if busy_s is None or busy_s <= 0 or total <= 0:
        return ()
    found: list[tuple[BucketReady, float, float]] = []
    sent_s = done_s = 0.0
    binding = 0
    for i, bucket in enumerate(buckets):
        sent_s = max(bucket.ready_s, sent_s)
        if sent_s >= done_s:
            binding = i
        done_s = max(sent_s, done_s) + busy_s * bucket.size_bytes / total
        found.append((bucket, sent_s, done_s))
    return tuple(
        BucketSent(bucket.size_bytes, bucket.ready_s, sent, done, i == binding)
        for i, (bucket, sent, done) in enumerate(found)
    )
