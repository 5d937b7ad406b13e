"""The process groups of this worker, and how many operations each backend has counted by itself.

    counted since the step began  =  those that were seen  +  those that nobody saw

A backend numbers its operations wherever they come from (DDP's reducer and compiled code call it from C++), so what
was missed shows there. Groups of one move nothing and are left out.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any, NamedTuple, Optional

from paceline_agent.record.step_graph import GROUP_MADE, MISSED, UNCOUNTED


class Group:
    """One group of workers, and its counts in the open step."""

    __slots__ = ("_counts", "learned", "made", "name", "ranks", "reference", "seen", "size", "start")

    def __init__(self, group: Any) -> None:
        self.reference = weakref.ref(
            group
        )  # the group itself, None once it is gone: nothing here keeps it alive
        self.size = int(group.size())
        self.name, self.ranks = _name_and_ranks(group, self.size)
        self.start: Optional[int] = 0  # of a group that is made inside a step, everything counts
        self.seen = 0
        self.made = True  # inside the open step
        self.learned: dict[str, Before] = {}  # by method
        self._counts = count_of(group) is not None

    def count(self) -> Optional[int]:
        """What the backend has counted so far; None where it does not count (asking costs an exception each time)."""
        group = self.reference() if self._counts else None
        return None if group is None else count_of(group)

    def unseen(self) -> Optional[int]:
        """Operations since the step began that were not seen; None where that is not known."""
        now = self.count()
        return None if now is None or self.start is None else now - self.start - self.seen


class Before(NamedTuple):
    """What is known of an operation before it is handed to its group.

    By how many a method moves the backend's count is asked of the backend once and then remembered: asking twice for
    every operation would be a third of what watching costs. The sums are compared at the end of every step; where they
    differ, everything is asked anew."""

    group: Optional[Group]  # None: of one, where nothing moves
    moves: Optional[int]  # None: not known yet
    counted: Optional[int] = None
    mark: Any = None  # on a device, in the current stream


ALONE = Before(None, None)


class Groups:
    """All groups that this process is in. Found again at the beginning and at the end of every step."""

    def __init__(self) -> None:
        self.by_id: dict[int, Group] = {}
        self._by_name: dict[str, Group] = {}
        self._no_names: set[str] = set()  # of the open step: a group may be made later

    def of(self, group: Any) -> Optional[Group]:
        """None for a group of one."""
        known = self.by_id.get(id(group))
        if known is None or known.reference() is not group:
            owner, listed = _owner(group), groups_here()
            if owner is not group:  # a backend that is called by itself counts with the group that holds it
                return self.of(owner)
            known = self.by_id[id(group)] = Group(group)
            if not any(group is other for other in listed):
                known.start, known.made = known.count(), False
        return known if known.size > 1 else None

    def named(self, name: str) -> Optional[Group]:
        """Asked for every text that an operator takes, most of which name no group."""
        found = self._by_name.get(name)
        if found is None or found.reference() is None:
            if name in self._no_names:
                return None
            self._by_name = {group.name: group for group in self.all()}
            found = self._by_name.get(name)
            if found is None:
                self._no_names.add(name)
        return found

    def open(self) -> None:
        """A step begins: remember what every backend has counted."""
        self._no_names.clear()
        for key in [key for key, known in self.by_id.items() if known.reference() is None]:
            del self.by_id[key]
        for known in self.all():
            known.start, known.seen, known.made = known.count(), 0, False

    def all(self) -> list[Group]:
        """The living groups of more than one."""
        for group in groups_here():
            self.of(group)
        return [known for known in self.by_id.values() if known.size > 1 and known.reference() is not None]

    def missed(self) -> dict[str, int]:
        """Why not everything was seen: operations nobody saw, groups that count nothing that could be compared, and
        groups that were made in this step."""
        groups = self.all()
        counts = [group.unseen() for group in groups]
        for group, count in zip(groups, counts):
            if count:
                group.learned.clear()
        return {
            MISSED: sum(abs(count) for count in counts if count is not None),
            UNCOUNTED: counts.count(None),
            GROUP_MADE: sum(group.made for group in groups),
        }


def count_of(group: Any) -> Optional[int]:
    """A group's own count of its operations. With several backends, of all of them together."""
    try:
        return int(group._get_sequence_number_for_group())
    except Exception:
        pass
    try:
        backends = {id(b): b for b in (group._get_backend(d) for d in group._device_types)}
        return sum(int(backend._get_sequence_number_for_group()) for backend in backends.values())
    except Exception:
        return None


def groups_here() -> list[Any]:
    """The groups that torch.distributed has made here, in the order in which it did."""
    module = sys.modules.get("torch.distributed.distributed_c10d")
    try:
        return list(module._world.pg_map)  # type: ignore[union-attr]
    except Exception:
        return []


def _owner(called: Any) -> Any:
    """The group that holds this backend; what is a group already is its own."""
    if not hasattr(called, "group_name"):
        for group in groups_here():
            for device in getattr(group, "_device_types", ()):
                try:
                    if group._get_backend(device) is called:
                        return group
                except Exception:
                    continue
    return called


def _name_and_ranks(group: Any, size: int) -> tuple[str, list[int]]:
    """The name that all its members know it by, and their numbers among all workers."""
    import torch.distributed as dist

    name = str(getattr(group, "group_name", "") or f"alone-{type(group).__name__}")
    try:
        return name, [int(rank) for rank in dist.get_process_group_ranks(group)]
    except Exception:
        return name, list(range(size))
