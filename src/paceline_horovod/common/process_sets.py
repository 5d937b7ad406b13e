"""Process sets: groups of ranks that exchange among themselves."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence

__all__ = ["ProcessSet", "global_process_set"]


class ProcessSet:
    """Some of the ranks. It has an id, and can be used, once it is registered (hvd.init or hvd.add_process_set)."""

    def __init__(self, ranks_or_comm: Iterable[int]) -> None:
        """Of any ranks, in any order: they count from the lowest up."""
        try:
            self.ranks: list[int] | None = sorted(operator.index(rank) for rank in ranks_or_comm)
        except TypeError as problem:
            raise ValueError(
                f"a process set is made of ranks, which are whole numbers, not of {ranks_or_comm!r}"
            ) from problem
        self.process_set_id: int | None = None
        self._own_rank: int | None = None

    def registered(self, process_set_id: int, *, ranks: Sequence[int], own_rank: int) -> None:
        """Say under which id the workers know this set, and which rank asks."""
        self.process_set_id, self.ranks, self._own_rank = process_set_id, list(ranks), own_rank

    def removed(self) -> None:
        self.process_set_id = None
        self._own_rank = None

    def included(self) -> bool:
        """Is this process one of the set?"""
        return self._rank_of_world() in (self.ranks or ())

    def size(self) -> int:
        self._rank_of_world()
        return len(self.ranks or ())

    def rank(self) -> int:
        """This process's place in the set."""
        own = self._rank_of_world()
        if not self.included() or self.ranks is None:
            raise ValueError(f"rank {own} is not part of {self}")
        return self.ranks.index(own)

    def _rank_of_world(self) -> int:
        if self.process_set_id is None or self._own_rank is None:
            raise ValueError(f"{self} is not registered: pass it to hvd.init or hvd.add_process_set")
        return self._own_rank

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProcessSet) and self.ranks == other.ranks

    def __hash__(self) -> int:
        return hash(tuple(self.ranks or ()))


global_process_set = ProcessSet([])
