"""What a worker that does not move waits in, as its agent has written it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Pending", "Standing", "StandingGroup"]


@dataclass(frozen=True, slots=True)
class Pending:
    """An operation that a worker has issued and that has not ended."""

    op: str
    number: int  # which of its group's
    elements: int | None


@dataclass(frozen=True, slots=True)
class StandingGroup:
    """A group of workers as one of its members has it."""

    name: str
    ranks: tuple[int, ...]
    pending: tuple[Pending, ...]  # the first comes first


@dataclass(frozen=True, slots=True)
class Standing:
    """Where one worker stands."""

    rank: int
    call: str | None  # of torch.distributed, that has not returned
    peer: int | None  # of a message: the other worker
    groups: tuple[StandingGroup, ...]
