"""The step graph: the communications of one step in their order, and when this worker waited for each.

    shape     what is alike from step to step: operation, group, number in the group, bytes, dtype, phase, peer, tag
    times     what differs: when it was issued, and from when to when this worker waited, in seconds of the step

A shape is stored once; steps name it by its number. What was not seen is said with its reason, and such a step has
no parts. Bounded: so many communications in a step, in a trial, and so many shapes.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

VERSION = 1
MESSAGES = ("send", "recv")  # from one worker to one: numbered for each pair and tag
MOST_IN_STEP = 20_000
MOST_IN_TRIAL = 100_000
MOST_SHAPES = 64

# Why a step has no parts; the desk says each in words (paceline.measure).
MISSED = "missed"  # the backend counted operations that nobody saw
UNCOUNTED = "uncounted"  # a backend that counts nothing: whether one was missed is not known
NEVER_WAITED = "never waited for"  # asynchronous, and the step ended before its wait
STRANGE_WAIT = "strange wait"  # a wait for something that was not seen being issued
OTHER_THREAD = "other thread"  # waited for on a thread that is not the training's
TOO_MANY = "too many"
NOT_TIMED = "not timed"  # on a device, where no event could be recorded

NOT_LOOKED = {
    "graph": None,
    "times": None,
    "unseen": None,
    "alone_bytes": None,
}  # what the line of such a step says


class Communication:
    """One operation of the open step."""

    __slots__ = (
        "dtype",
        "group",
        "issued_s",
        "on_device",
        "op",
        "owed",
        "peer",
        "phase",
        "size_bytes",
        "tag",
        "waits",
    )

    def __init__(
        self,
        op: str,
        group: Any,
        size_bytes: Optional[int],
        dtype: Optional[str],
        phase: str,
        issued_s: float,
    ) -> None:
        self.op = op
        self.group = group
        self.size_bytes = size_bytes
        self.dtype = dtype
        self.phase = phase
        self.issued_s = issued_s
        self.peer: Optional[int] = None  # of a message: the other worker
        self.tag: Optional[int] = None
        self.on_device = False
        self.waits: list[Any] = []  # (begun, ended): seconds of perf_counter, or two events of a device
        self.owed: Optional[str] = NEVER_WAITED  # None once its wait was seen, or is another's


class OpenGraph:
    """The communications of the open step."""

    def __init__(self) -> None:
        self.communications: list[Communication] = []
        self.unseen: dict[str, int] = {}
        self.alone_bytes = 0  # handed to groups of one: nothing moved, and more workers would send them

    def add(self, communication: Communication) -> None:
        if len(self.communications) < MOST_IN_STEP:
            self.communications.append(communication)
        else:
            self.doubt(TOO_MANY)

    def doubt(self, reason: str, count: int = 1) -> None:
        self.unseen[reason] = self.unseen.get(reason, 0) + count


class ClosedGraph:
    """What is kept of a step. Times of a device are events until the trial has ended."""

    __slots__ = ("alone_bytes", "shape", "times", "unseen")

    def __init__(
        self, shape: Optional[int], times: list[Any], unseen: dict[str, int], alone_bytes: int = 0
    ) -> None:
        self.alone_bytes = alone_bytes
        self.shape = shape
        self.times = times
        self.unseen = unseen

    def resolve(self, began: Any, seconds: Callable[[Any, Any], float]) -> None:
        """Turn events into seconds since the event `began`; `seconds` tells what lies between two of them."""
        for row in self.times:
            for place, value in enumerate(row):
                if value is None or isinstance(value, float):
                    continue
                row[place] = None if began is None else seconds(began, value)
                if began is None:
                    self.unseen[NOT_TIMED] = 1

    def fields(self) -> dict[str, Any]:
        """What the line of a step says of its graph (docs/reference/files.md)."""
        rounded = [[None if t is None else round(t, 7) for t in row] for row in self.times]
        return {
            "graph": self.shape,
            "times": rounded,
            "unseen": self.unseen,
            "alone_bytes": self.alone_bytes,
        }


class StepGraphs:
    """The graphs of a trial: each shape once."""

    def __init__(self) -> None:
        self._shapes: dict[Any, int] = {}
        self._groups: dict[str, list[int]] = {}
        self._kept = 0

    @property
    def full(self) -> bool:
        return self._kept >= MOST_IN_TRIAL

    def close(self, graph: OpenGraph, began_s: float) -> ClosedGraph:
        """Keep the graph of a step that began then (perf_counter)."""
        rows, times, numbers = [], [], {}  # type: ignore[var-annotated]
        for c in graph.communications:
            key = (c.group.name, c.peer, c.tag, c.op if c.op in MESSAGES else None)
            number = numbers[key] = numbers.get(key, -1) + 1
            if c.owed is not None:
                graph.doubt(c.owed)
            self._groups.setdefault(c.group.name, c.group.ranks)
            rows.append((c.op, c.group.name, number, c.size_bytes, c.dtype, c.phase, c.peer, c.tag))
            row: list[Any] = [c.issued_s - began_s]
            for pair in c.waits:
                row += [value - began_s if isinstance(value, float) else value for value in pair]
            times.append(row)
        self._kept += len(rows)
        shape = tuple(rows)
        if shape not in self._shapes and len(self._shapes) >= MOST_SHAPES:
            return ClosedGraph(None, [], {**graph.unseen, TOO_MANY: 1})
        number = self._shapes.setdefault(shape, len(self._shapes))
        return ClosedGraph(number, times, graph.unseen, graph.alone_bytes)

    def records(self) -> list[dict[str, Any]]:
        """The shapes as lines of the worker's file."""
        return [
            {
                "record": "step_graph",
                "version": VERSION,
                "graph": number,
                "groups": {name: self._groups[name] for name in sorted({row[1] for row in shape})},
                "communications": [list(row) for row in shape],
            }
            for shape, number in self._shapes.items()
        ]
