"""The communications of one step on one worker, as its agent saw them."""

from __future__ import annotations

from dataclasses import dataclass

MESSAGES = ("send", "recv")


@dataclass(frozen=True, slots=True)
class Communication:
    """One operation: what was handed to which group, and where in the step. The same in every step of that shape."""

    op: str  # all_reduce, all_gather, reduce_scatter, broadcast, send, recv, barrier, …
    group: str  # the name that all members know it by
    ranks: tuple[int, ...]  # the members' numbers among all workers
    number: int  # which of the group's operations in this step; of a message, of those between the two with this tag
    size_bytes: int | None  # of output and input the larger; None: a payload without a size
    dtype: str | None
    phase: str  # forward, backward, optimizer, other
    peer: int | None = None  # of a message: the other worker
    tag: int | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """One communication of one worker in one step, and how long it waited for it.

    wait_s: from its own arrival (nothing left to do without it) until released. overlap_s: the part that was under
    way before the arrival, under this worker's own computation; None where it may have ended before.
    """

    wait_s: float
    overlap_s: float | None = 0.0
    of: Communication | None = None  # None: recorded before communications were told apart
    issued_s: float | None = None  # seconds after the step began
    until_s: float | None = None  # when the last wait for it ended
