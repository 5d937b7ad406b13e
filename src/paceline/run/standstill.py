"""Who waits for whom where nothing moves: the operation, its group, and who has not arrived.

different operations   all members wait, and not in the same one
absent                 some members wait in an operation that others of the group have not come to; of several
                       groups the one whose absent workers wait nowhere themselves
a ring                 every absent worker waits in another group
all there              all members wait in one operation, which does not end: the network between them
a message              a worker waits for one other
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.records import Pending, Standing

__all__ = ["standstill_text"]

_JOINS = "init_process_group"
_ALIKE = ("all_reduce", "broadcast", "reduce")  # every member gives as many elements
_MESSAGES = ("recv", "send", "irecv", "isend")


@dataclass(frozen=True, slots=True)
class _Meeting:
    """A group of which at least one member waits."""

    ranks: tuple[int, ...]
    waiting: dict[int, Pending]

    @property
    def absent(self) -> list[int]:
        return [rank for rank in self.ranks if rank not in self.waiting]

    @property
    def differs(self) -> bool:
        operations = {(p.op, p.elements if p.op in _ALIKE else None) for p in self.waiting.values()}
        return not self.absent and len(operations) > 1


def standstill_text(standings: Sequence[Standing], *, workers: int) -> str | None:
    """One sentence, or None where nobody is known to wait for anybody."""
    joining = [standing.rank for standing in standings if standing.call == _JOINS]
    missing = [rank for rank in range(workers) if rank not in joining]
    if joining and missing:
        return f"{_who(joining, 'wait')} in {_JOINS}; {_who(missing, 'have')} not joined"
    meetings = _meetings(standings)
    for meeting in meetings:
        if meeting.differs:
            return _different(meeting, workers)
    busy = {rank for meeting in meetings for rank in meeting.waiting}
    waited = [meeting for meeting in meetings if meeting.absent]
    for meeting in waited:
        if not busy.intersection(meeting.absent):
            return f"{_at(meeting, workers)}; {_who(meeting.absent, 'have')} not arrived"
    if waited:
        return "workers wait in a ring: " + "; ".join(_at(meeting, workers) for meeting in waited)
    if meetings:
        return f"{_at(meetings[0], workers)}, and it does not end"
    messages = [s for s in standings if s.call in _MESSAGES and s.peer is not None]
    return "; ".join(f"worker {s.rank} waits in {s.call} for worker {s.peer}" for s in messages) or None


def _meetings(standings: Sequence[Standing]) -> list[_Meeting]:
    found: dict[str, _Meeting] = {}
    for standing in standings:
        for group in standing.groups:
            if group.pending:
                found.setdefault(group.name, _Meeting(group.ranks, {})).waiting[standing.rank] = (
                    group.pending[0]
                )
    return list(found.values())


def _different(meeting: _Meeting, workers: int) -> str:
    calls = [f"worker {rank} {_call(pending)}" for rank, pending in sorted(meeting.waiting.items())]
    number = min(pending.number for pending in meeting.waiting.values())
    return f"operation {number} of {_group(meeting.ranks, workers)} differs: {', '.join(calls)}"


def _call(pending: Pending) -> str:
    return pending.op if pending.elements is None else f"{pending.op} of {pending.elements} numbers"


def _at(meeting: _Meeting, workers: int) -> str:
    first = min(meeting.waiting.values(), key=lambda pending: pending.number)
    return (
        f"{_who(sorted(meeting.waiting), 'wait')} in {first.op}"
        f" (operation {first.number} of {_group(meeting.ranks, workers)})"
    )


def _group(ranks: Sequence[int], workers: int) -> str:
    return "all workers" if len(ranks) == workers else f"the group of {_named(ranks)}"


def _who(ranks: Sequence[int], verb: str) -> str:
    """`worker 1 has`, `workers 0 and 2 wait`."""
    alone = {"have": "has"}.get(verb, f"{verb}s")
    return f"{_named(ranks)} {verb if len(ranks) > 1 else alone}"


def _named(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"worker {ranks[0]}"
    return f"workers {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
