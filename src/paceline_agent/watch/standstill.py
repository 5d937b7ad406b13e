"""A worker that does not move: what it waits in is written while it still can, for whoever ends it reads no memory.

A thread wakes a few times in the hang limit. Where no step and no operation has gone on for half of it, the worker's
groups are written: of each, which operations have not ended, as torch's own recorder has them; and the call that the
training's thread stands in. The training itself pays nothing, for nothing is noted in advance. Written again while it
lasts, and emptied when it goes on.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from time import monotonic
from typing import Any, Callable, Optional

from paceline_agent import FORMAT
from paceline_agent.record import files
from paceline_agent.watch.groups import Group, count_of, groups_here

_LOOKS = 8  # within the hang limit
_MOST_PENDING = 8  # of a group
_CALLS_IN = "distributed_c10d.py"
_PEERS = ("src", "dst", "group_src", "group_dst")


class Standstill:
    """Looks after this process from a thread of its own, from its first process group on."""

    def __init__(
        self, folder: str, *, hang_s: float, steps: Callable[[], int], number: Callable[[], int]
    ) -> None:
        self._folder = folder
        self._quiet_s = hang_s / 2
        self._look_s = hang_s / _LOOKS
        self._steps, self._number = steps, number
        self._thread: Optional[threading.Thread] = None
        self._written = False

    def start(self) -> None:
        """Once in a process. A forked child has no threads of its parent's, and starts its own."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._watch, name="paceline-standstill", daemon=True)
            self._thread.start()

    def _watch(self) -> None:
        never = threading.Event()
        moved, before = monotonic(), self._progress()
        while not never.wait(self._look_s):
            with contextlib.suppress(Exception):  # groups come and go under its feet: another look follows
                now = self._progress()
                if now != before:
                    moved, before = monotonic(), now
                    self._forget()
                elif monotonic() - moved >= self._quiet_s:
                    self._write(monotonic() - moved)

    def _progress(self) -> Any:
        """What changes while anything goes on: steps, and operations that were issued."""
        return self._steps(), [count_of(group) for group in groups_here()]

    def _write(self, quiet_s: float) -> None:
        call, peer = standing_in(sys._current_frames().get(threading.main_thread().ident or 0))
        self._note(quiet_s, call, peer, standing_groups())

    def _forget(self) -> None:
        """What was written is no longer so. A file that is gone here would stay on another machine's desk."""
        if self._written:
            self._note(0.0, None, None, [])
            self._written = False

    def _note(self, quiet_s: float, call: Optional[str], peer: Optional[int], groups: list[Any]) -> None:
        rank = self._number()
        said = {"format": FORMAT, "rank": rank, "steps": self._steps(), "quiet_s": round(quiet_s, 3)}
        note = {**said, "call": call, "peer": peer, "groups": groups}
        files.write_json(self._folder, f"standing-{rank}.json", note)
        self._written = True


def standing_in(frame: Any) -> tuple[Optional[str], Optional[int]]:
    """The call of torch.distributed that has not returned on this stack, and of a message the other worker."""
    while frame is not None:
        name = frame.f_code.co_name
        public = not name.startswith("_") and name != "wrapper"
        if public and frame.f_code.co_filename.endswith(_CALLS_IN):
            peers = [value for key in _PEERS if isinstance(value := frame.f_locals.get(key), int)]
            return name, peers[0] if peers else None
        frame = frame.f_back
    return None, None


def standing_groups() -> list[dict[str, Any]]:
    """Every group of more than one: its members, and what was issued and has not ended."""
    pending = _pending()
    found = []
    for group in groups_here():
        known = Group(group)
        if known.size > 1:
            found.append(
                {
                    "name": known.name,
                    "ranks": known.ranks,
                    "pending": pending.get(known.name, [])[:_MOST_PENDING],
                }
            )
    return found


def _pending() -> dict[str, list[dict[str, Any]]]:
    """By group, what torch's flight recorder has as not ended; nothing where this torch has none."""
    from torch._C import _distributed_c10d as c10d

    found: dict[str, list[dict[str, Any]]] = {}
    for name in ("_dump_fr_trace_json", "_dump_nccl_trace_json"):
        dump = getattr(c10d, name, None)
        for entry in json.loads(dump()).get("entries", ()) if dump is not None else ():
            if not entry.get("retired") and entry.get("state") != "completed":
                operation = {
                    "op": str(entry.get("profiling_name", "")).rpartition(":")[2],
                    "number": entry.get("collective_seq_id"),
                    "sizes": entry.get("input_sizes"),
                }
                found.setdefault(str(entry.get("process_group", [""])[0]), []).append(operation)
        if found:
            return found
    return found
