"""Match what the ranks ask for, by name: the part of rank 0 that needs no socket and no clock of its own.

A request is answered when every member of its process set has made it (a joined rank counts as having made every
allreduce, with zeros). If the requests of one name do not fit together, everybody gets the same error, at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from paceline_horovod.common.request import Request, Response

__all__ = ["Matching"]


class Matching:
    """The requests that wait for other ranks."""

    def __init__(self, size: int) -> None:
        self.sets: dict[int, tuple[int, ...]] = {0: tuple(range(size))}
        self.gone: dict[int, str] = {}
        self.joined: list[int] = []
        self._waiting: dict[tuple[int, str], dict[int, Request]] = {}
        self._since_s: dict[tuple[int, str], float] = {}
        self._next_set = 1

    def ask(self, rank: int, request: Request, *, now_s: float) -> list[tuple[tuple[int, ...], Response]]:
        """Take one request; the responses that are due because of it, each with the ranks it goes to."""
        if request.kind == "join":
            self.joined.append(rank)
            return self._due_after_join(rank)
        key = (request.process_set, request.name)
        waiting = self._waiting.setdefault(key, {})
        self._since_s.setdefault(key, now_s)
        waiting[rank] = request
        return self._due([key])

    def leave(self, rank: int, reason: str) -> list[tuple[tuple[int, ...], Response]]:
        """A rank has gone: whoever waits for it gets an error instead of waiting for ever."""
        self.gone[rank] = reason
        due = self._due(list(self._waiting))
        if self.joined:
            members = tuple(r for r in self.joined if r not in self.gone)
            error = f"join: rank {rank} {reason}"
            due.append((members, Response("join", 0, Request("join", "join"), error)))
            self.joined = []
        return due

    def fail(self, key: tuple[int, str], error: str) -> list[tuple[tuple[int, ...], Response]]:
        """Give up on one name: those who wait for it get the error."""
        waiting = self._waiting.pop(key)
        del self._since_s[key]
        first = next(iter(waiting.values()))
        return [(tuple(waiting), Response(first.name, first.process_set, first, error))]

    def stalled(self, *, now_s: float, after_s: float) -> list[tuple[tuple[int, str], tuple[int, ...]]]:
        """The names that have waited longer than `after_s`, each with the ranks that have not asked for it."""
        found = []
        for key, since_s in self._since_s.items():
            if now_s - since_s >= after_s:
                found.append((key, tuple(r for r in self._needed(key) if r not in self._waiting[key])))
        return found

    def _needed(self, key: tuple[int, str]) -> tuple[int, ...]:
        return tuple(r for r in self.sets.get(key[0], ()) if r not in self.joined)

    def _due_after_join(self, rank: int) -> list[tuple[tuple[int, ...], Response]]:
        due = self._due(list(self._waiting))
        gone = next(iter(self.gone), None)
        everybody = self.sets[0]
        if gone is not None:
            error = f"join: rank {gone} {self.gone[gone]}"
            due.append(((rank,), Response("join", 0, Request("join", "join"), error)))
            self.joined.remove(rank)
        elif len(self.joined) == len(everybody):
            self.joined = []
            due.append((everybody, Response("join", 0, Request("join", "join"), last_joined=rank)))
        return due

    def _due(self, keys: Sequence[tuple[int, str]]) -> list[tuple[tuple[int, ...], Response]]:
        due = []
        for key in keys:
            waiting = self._waiting[key]
            members = self.sets.get(key[0])
            error: str | None = None
            if members is None:
                error = f"there is no process set {key[0]}"
            else:
                left = next((r for r in members if r in self.gone), None)
                if left is not None:
                    error = f"rank {left} {self.gone[left]}"
            first = next(iter(waiting.values()))
            if error is not None:
                due.extend(self.fail(key, f"{first.kind} {first.name}: {error}"))
            elif all(r in waiting for r in self._needed(key)) and members is not None:
                due.append(self._matched(key, members, waiting))
        return due

    def _matched(
        self, key: tuple[int, str], members: tuple[int, ...], waiting: dict[int, Request]
    ) -> tuple[tuple[int, ...], Response]:
        del self._waiting[key], self._since_s[key]
        first = next(iter(waiting.values()))
        absent = tuple(r for r in members if r not in waiting)
        error = _mismatch(waiting) or _not_with_joined(first, absent)
        if error:
            return tuple(waiting), Response(first.name, first.process_set, first, error)
        if first.kind == "add_set":
            first = Request(first.name, first.kind, ranks=first.ranks, root_rank=self._next_set)
            self.sets[self._next_set] = first.ranks
            self._next_set += 1
        elif first.kind == "remove_set":
            self.sets.pop(first.root_rank, None)
        rows: tuple[tuple[int, ...], ...] = ()
        splits: tuple[tuple[int, ...], ...] = ()
        if first.kind == "allgather":
            rows = tuple(tuple(shape[0] for shape in waiting[r].shapes) for r in members)
        elif first.kind == "alltoall":
            splits = tuple(waiting[r].splits or () for r in members)
        return members, Response(first.name, first.process_set, first, rows=rows, splits=splits)


def _not_with_joined(request: Request, absent: Sequence[int]) -> str:
    if not absent or (request.kind == "allreduce" and request.op in ("Average", "Sum", "Adasum")):
        return ""
    what = f"{request.kind} with op {request.op}" if request.op else request.kind
    return f"{request.name}: {what} is not possible after rank {absent[0]} has joined; only a sum or an average is"


def _mismatch(waiting: dict[int, Request]) -> str:
    """The first thing in which two ranks differ, in words; empty when all fit together."""
    (rank, first), *others = waiting.items()
    for other_rank, other in others:
        for what, one, two in _compared(first, other):
            if one != two:
                return f"{first.name}: mismatched {what}: rank {rank} has {one}, rank {other_rank} has {two}"
    return ""


def _compared(one: Request, two: Request) -> list[tuple[str, object, object]]:
    if one.kind in ("allgather", "alltoall"):  # the first dimension may differ
        shapes = ([s[1:] for s in one.shapes], [s[1:] for s in two.shapes])
        ranks = ([len(s) for s in one.shapes], [len(s) for s in two.shapes])
    else:
        shapes = (list(one.shapes), list(two.shapes))
        ranks = ([], [])
    return [
        ("collective", one.kind, two.kind),
        ("reduction op", one.op, two.op),
        ("number of tensors", len(one.shapes), len(two.shapes)),
        ("data types", ", ".join(one.dtypes), ", ".join(two.dtypes)),
        ("number of dimensions", *ranks),
        ("shapes", *shapes),
        ("device", one.device, two.device),
        ("root rank", one.root_rank, two.root_rank),
        ("prescale factor", one.prescale, two.prescale),
        ("postscale factor", one.postscale, two.postscale),
        ("process set members", one.ranks, two.ranks),
    ]
