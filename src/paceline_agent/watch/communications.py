"""Every communication of the process, whatever library called it: what was issued, and what was waited for.

    collectives.py   methods of ProcessGroup, of its backends and of Work        (dist.*, FSDP, ZeRO, by hand, messages)
    functional.py    torch.ops._c10d_functional, also from compiled code         (DTensor, tensor parallel)
    ddp.py           what DDP's reducer sends from C++: its own logger, or a hook
    streams.py       on CUDA: streams that wait for one that carries communication

All of them report here. Only in steps that are looked at; FIGURE.
"""

from __future__ import annotations

import threading
from threading import get_ident
from typing import Any, Optional
from weakref import ref

from paceline_agent.record import step_graph
from paceline_agent.record.recorder import Recorder
from paceline_agent.record.step_graph import ClosedGraph, Communication, OpenGraph, StepGraphs
from paceline_agent.watch.device import Device, on_device
from paceline_agent.watch.groups import ALONE, Before, Group, Groups
from paceline_agent.watch.phases import Phases
from paceline_agent.watch.streams import Streams

_DEEPEST = 3  # lists in lists
_TENSORS: dict[
    type, bool
] = {}  # types of arguments, and whether they are tensors: asking each would cost 1 µs
_MAIN = threading.main_thread().ident


class Communications:
    """The open step graph, and what is still to be waited for."""

    def __init__(self, recorder: Recorder, phases: Phases) -> None:
        self.recorder = recorder
        self.phases = phases
        self.groups = Groups()
        self.graphs = StepGraphs()
        self.graph = OpenGraph()
        self.on = False
        self.device: Optional[Device] = None
        self.streams: Optional[Streams] = None
        self.hooked: Optional[list[Communication]] = None  # inside a comm hook of DDP: its wait is DDP's
        self._works: dict[int, tuple[Any, Optional[Communication]]] = {}
        self._tensors: dict[Optional[int], Communication] = {}
        self._futures: list[Communication] = []  # those of which somebody took the future
        self._elsewhere: list[Communication] = []  # issued on a thread that is not the training's
        self.joined: dict[int, list[Communication]] = {}  # groups that join several operations into one
        self._names: dict[Any, str] = {}

    # ------------------------------------------------------------ steps

    def use_device(self) -> None:
        """Steps run on a CUDA device, whose clock counts from now on."""
        if self.device is None:
            self.device = Device()
            self.streams = Streams(self, self.device)
            self.streams.install()

    def open(self, looking: bool) -> None:
        """A step begins. Nothing is watched in steps that nobody looks at."""
        self.graph = OpenGraph()
        self._works, self._tensors, self.joined = {}, {}, {}
        self._futures, self._elsewhere = [], []
        if self.streams is not None:
            self.streams.forget()
        self.on = looking and not self.graphs.full
        if self.on:
            self.groups.open()

    def close(self, began_s: Optional[float]) -> Optional[ClosedGraph]:
        """The step ends: its graph, or None where it was not looked at."""
        was_on, self.on = self.on, False
        if not was_on or began_s is None:
            return None
        for reason, count in self.groups.missed().items():
            if count:
                self.graph.doubt(reason, count)
        return self.graphs.close(self.graph, began_s)

    # ------------------------------------------------------------ issuing

    def about_to_issue(self, called: Any, method: Optional[str]) -> Before:
        """What issued() needs to know: the group, what it had counted before, and a mark on the device. No method:
        what it counts differs from call to call.

        On a device an operation without a Work stands in the current stream, in its order: its wait is between marks
        before and after it. The host comes back at once and knows nothing of it."""
        group = self.groups.of(called)
        if group is None:
            return ALONE
        learned = None if method is None or self.joined else group.learned.get(method)
        moves = None if learned is None else learned.moves
        mark = None if self.device is None else self.device.mark()
        return Before(group, moves, None if moves is not None else group.count(), mark)

    def issued(
        self,
        op: str,
        method: Optional[str],
        before: Before,
        begun: float,
        ended: float,
        values: Any,
        result: Any,
    ) -> None:
        """An operation was handed to a group. `values`: its arguments; `result`: a Work, or None."""
        if not self.recorder.active:
            self.on = False
            return
        group, moves, counted, mark = before
        size, dtype, on_device = self.payload(values)
        if group is None:
            self._remember(result, None)  # a group of one: what is waited for moves nothing
            self.graph.alone_bytes += size or 0
            return
        if moves is not None:
            group.seen += moves
        else:
            self._learn(group, method, counted)
        communication = Communication(op, group, size, dtype, self.phases.now(), begun)
        if on_device:
            communication.on_device = True
        if op in step_graph.MESSAGES:
            communication.peer, communication.tag = _address(values, group)
        joined = self.joined.get(id(group)) if self.joined else None
        if joined is not None:
            communication.owed = None  # what ends the group is waited for
            joined.append(communication)
        elif result is None:
            self._ended(communication, mark, begun, ended)
        else:
            self._remember(result, communication)
        self.place(communication)

    def _learn(self, group: Group, method: Optional[str], counted: Optional[int]) -> None:
        """What the backend has counted is seen. Inside a join its first operation may count for all: not a rule."""
        moved = self.count(group, counted)
        if method is not None and not self.joined:
            group.learned[method] = Before(group, moved)

    def count(self, group: Group, before: Optional[int]) -> int:
        """Book as seen what the backend has counted since `before`."""
        now = group.count()
        moved = 0 if now is None or before is None else now - before
        group.seen += moved
        return moved

    def place(self, communication: Communication) -> None:
        """Into the graph, and to those whose wait is somebody else's."""
        if self.hooked is not None:
            communication.owed = None
            self.hooked.append(communication)
        elif get_ident() != _MAIN and not is_training_thread():
            communication.owed, communication.waits = step_graph.OTHER_THREAD, []
            self._elsewhere.append(communication)
        self.graph.add(communication)

    def produced(self, tensors: Any, communication: Communication) -> None:
        """A functional collective gave these tensors: they are waited for instead of a Work."""
        for tensor in tensors:
            place = storage_of(tensor)
            if place is not None:
                self._tensors[place] = communication

    def payload(self, values: Any) -> tuple[Optional[int], Optional[str], bool]:
        """Bytes and dtype: of output and input the larger, so an all-gather's output, a reduce-scatter's input."""
        most, largest = 0, None
        for value in values:
            kind = type(value)
            if kind is list and len(value) == 1:
                value = value[0]
                kind = type(value)
            tensors = _TENSORS.get(kind)
            if tensors is False:
                continue
            size, tensor = (value.nbytes, value) if tensors else _size(value)
            if size is None:
                return None, None, False
            if tensor is not None and (size > most or largest is None):
                most, largest = size, tensor
        if largest is None:
            return most, None, False
        dtype = largest.dtype
        name = self._names.get(dtype)
        if name is None:
            name = self._names[dtype] = str(dtype).rpartition(".")[2]
        return most, name, on_device(largest)

    # ------------------------------------------------------------ joining

    def begin_joined(self, before: Before) -> None:
        """From here on operations of this group become one, which _end_coalescing returns."""
        group = before.group
        if group is not None:
            self.count(group, before.counted)
            self.joined[id(group)] = []

    def end_joined(self, before: Before, begun: float, ended: float, result: Any) -> None:
        """The joined operations were handed over as one: the last of them has the wait."""
        group, _, counted, mark = before
        if group is None:
            return
        self.count(group, counted)
        joined = self.joined.pop(id(group), [])
        if not joined:
            if result is not None:
                self.graph.doubt(step_graph.MISSED)
            return
        joined[-1].owed = step_graph.NEVER_WAITED
        if result is None:
            self._ended(joined[-1], mark, begun, ended)
        else:
            self._remember(result, joined[-1])

    # ------------------------------------------------------------ waiting

    def about_to_wait(self, work: Any) -> Any:
        """A mark on the device where that is where it waits."""
        found = self._works.get(id(work))
        return None if found is None else self._mark(found[1])

    def waited(self, work: Any, mark: Any, begun: float, ended: float) -> None:
        if not self.recorder.active:
            self.on = False
            return
        found = self._works.get(id(work))
        if found is None or found[0]() is not work:
            self.graph.doubt(step_graph.STRANGE_WAIT)
            return
        communication = found[1]
        if communication is not None:
            self._ended(communication, mark, begun, ended)
            if (
                communication.op == "recv" and communication.peer is None
            ):  # from anybody: now it is known from whom
                communication.peer = communication.group.ranks[work._source_rank()]

    def about_to_wait_tensor(self, tensor: Any) -> Any:
        communication = self._tensors.get(storage_of(tensor))
        return communication, self._mark(communication)

    def waited_tensor(self, token: Any, begun: float, ended: float) -> None:
        communication, mark = token
        if (
            communication is not None
        ):  # of others the backend's count knows; a second wait for the same tensor is none
            self._ended(communication, mark, begun, ended)

    def future_taken(self, work: Any) -> None:
        found = self._works.get(id(work))
        if found is not None and found[1] is not None and found[0]() is work:
            self._futures.append(found[1])

    def waited_future(self, begun: float, ended: float) -> None:
        """Somebody waited for a future: for every operation whose future was taken and that nobody has waited for."""
        owing = [c for c in self._futures if c.owed == step_graph.NEVER_WAITED]
        self._futures = []
        self.cover(owing, begun, ended)

    def waited_elsewhere(self, begun: float, ended: float) -> None:
        """The training's thread waited for what another thread exchanges."""
        owing = [c for c in self._elsewhere if c.owed == step_graph.OTHER_THREAD]
        self._elsewhere = []
        self.cover(owing, begun, ended)

    @staticmethod
    def cover(communications: list[Communication], begun: Any, ended: Any) -> None:
        """One wait for several: it is booked to the last."""
        for communication in communications:
            communication.owed = None
        if communications:
            communications[-1].waits.append((begun, ended))

    # ------------------------------------------------------------ within

    def _mark(self, communication: Optional[Communication]) -> Any:
        if communication is None or self.device is None or not communication.on_device:
            return None
        return self.device.mark()

    def _remember(self, work: Any, communication: Optional[Communication]) -> None:
        if work is None:
            return
        try:
            self._works[id(work)] = ref(work), communication
        except TypeError:  # a Work of Python's own making may refuse to be referred to weakly
            self._works[id(work)] = (lambda: work, communication)

    def _ended(self, communication: Communication, mark: Any, begun: float, ended: float) -> None:
        if communication.owed is None and self.hooked is not None:
            return  # inside a hook of DDP, whose time counts as a whole
        if get_ident() != _MAIN and not is_training_thread():
            return
        if not communication.on_device:
            communication.owed = None
            communication.waits.append((begun, ended))
        elif mark is None:
            communication.owed = step_graph.NOT_TIMED
        elif self.streams is not None and self.streams.takes(communication):
            return  # another stream waits: the computing one has not yet
        else:
            after = None if self.device is None else self.device.mark()
            communication.owed = None if after is not None else step_graph.NOT_TIMED
            communication.waits.append((mark, after))


def is_training_thread() -> bool:
    """The main thread, or one that torch made: autograd runs backward on a device's thread of its own."""
    return get_ident() == _MAIN or isinstance(threading.current_thread(), threading._DummyThread)


def _size(value: Any, depth: int = 0) -> tuple[Any, Any]:
    """Bytes of the tensors in an argument, and the first of them: (0, None) of anything else, (None, None) where a
    tensor does not tell."""
    kind = type(value)
    if kind is list or kind is tuple:
        if len(value) == 1:
            return _size(value[0], depth + 1) if depth < _DEEPEST else (0, None)
        total, first = 0, None
        for part in value if depth < _DEEPEST else ():
            size, tensor = _size(part, depth + 1)
            if size is None:
                return None, None
            total += size
            first = tensor if first is None else first
        return total, first
    if kind not in _TENSORS:
        _TENSORS[kind] = hasattr(value, "nbytes") and hasattr(value, "dtype")
    if not _TENSORS[kind]:
        return 0, None
    try:
        return int(value.nbytes), value
    except Exception:
        return None, None


def _address(values: Any, group: Group) -> tuple[Optional[int], Optional[int]]:
    """The other worker of a message, by its number among all, and the tag: (tensors, number in the group, tag)."""
    numbers = [value for value in values if type(value) is int]
    if len(numbers) == 1:  # from anybody
        return None, numbers[0]
    if len(numbers) == 2 and 0 <= numbers[0] < len(group.ranks):
        return group.ranks[numbers[0]], numbers[1]
    return None, None


def storage_of(tensor: Any) -> Optional[int]:
    """What views of one tensor share; None of a tensor that is only traced."""
    try:
        return int(tensor.untyped_storage().data_ptr())
    except Exception:
        return None
