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
GROUP_MADE = "group made"  # its members met through a store, where nobody can look
NOT_TIMED = "not timed"  # on a device, where no event could be recorded

NOT_LOOKED = {
    "graph": None,
    "times": None,
    "unseen": None,
    "alone_bytes": None,
}  # what the line of such a step says


class Communication:
    """One operation of the open step."""

    peer: Optional[int] = None  # of a message: the other worker
    tag: Optional[int] = None
    on_device = False
    owed: Optional[str] = NEVER_WAITED  # None once its wait was seen, or is another's

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
        self.waits: list[Any] = []  # (begun, ended): seconds of perf_counter, or two events of a device


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

    __slots__ = ("_began_s", "_moments", "alone_bytes", "shape", "unseen")

    def __init__(
        self,
        shape: Optional[int],
        moments: list[tuple[float, list[Any]]],
        began_s: float,
        unseen: dict[str, int],
        alone_bytes: int,
    ) -> None:
        self.alone_bytes = alone_bytes
        self.shape = shape
        self.unseen = unseen
        self._moments = moments  # of each communication: issued, and (begun, ended) of each wait
        self._began_s = began_s

    def resolve(self, began: Any, seconds: Callable[[Any, Any], float]) -> None:
        """Turn events into seconds since the event `began`; `seconds` tells what lies between two of them."""

        def moment(value: Any) -> Any:
            if value is None or isinstance(value, float):
                return value
            if began is None:
                self.unseen[NOT_TIMED] = 1
                return None
            return self._began_s + seconds(began, value)

        self._moments = [
            (issued_s, [tuple(map(moment, wait)) for wait in waits]) for issued_s, waits in self._moments
        ]

    def fields(self) -> dict[str, Any]:
        """What the line of a step says of its graph (docs/reference/files.md)."""
        return {
            "graph": self.shape,
            "times": [self._row(issued_s, waits) for issued_s, waits in self._moments],
            "unseen": self.unseen,
            "alone_bytes": self.alone_bytes,
        }

    def _row(self, issued_s: float, waits: list[Any]) -> list[Optional[float]]:
        moments = [issued_s, *(moment for wait in waits for moment in wait)]
        return [None if moment is None else round(moment - self._began_s, 7) for moment in moments]


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
        communications = graph.communications
        for c in communications:
            if c.owed is not None:
                graph.doubt(c.owed)
        self._kept += len(communications)
        shape = tuple(
            [(c.op, c.group.name, c.size_bytes, c.dtype, c.phase, c.peer, c.tag) for c in communications]
        )
        number = self._shapes.get(shape)
        if number is None:
            if len(self._shapes) >= MOST_SHAPES:
                return ClosedGraph(None, [], began_s, {**graph.unseen, TOO_MANY: 1}, 0)
            number = self._shapes[shape] = len(self._shapes)
            self._groups.update((c.group.name, c.group.ranks) for c in communications)
        moments = [(c.issued_s, c.waits) for c in communications]
        return ClosedGraph(number, moments, began_s, graph.unseen, graph.alone_bytes)

    def records(self) -> list[dict[str, Any]]:
        """The shapes as lines of the worker's file."""
        return [
            {
                "record": "step_graph",
                "version": VERSION,
                "graph": number,
                "groups": {name: self._groups[name] for name in sorted({row[1] for row in shape})},
                "communications": _numbered(shape),
            }
            for shape, number in self._shapes.items()
        ]


def _numbered(shape: tuple[Any, ...]) -> list[list[Any]]:
    """The rows of a shape, each with its number in its group; of messages, in its pair and tag."""
    numbers: dict[Any, int] = {}
    rows = []
    for op, group, size_bytes, dtype, phase, peer, tag in shape:
        key = (group, peer, tag, op if op in MESSAGES else None)
        numbers[key] = number = numbers.get(key, -1) + 1
        rows.append([op, group, number, size_bytes, dtype, phase, peer, tag])
    return rows
