"""On CUDA a wait may be a stream's: FSDP communicates on streams of its own, and the computing one waits for an event.

    gather stream     Work.wait ── event recorded
    computing stream  ····················· wait_event ──     begin and end of this are the wait

So what a side stream has waited for travels with the events recorded on it, until the computing stream waits for one.
No synchronising: an event before the wait and one after it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Optional

from paceline_agent.guard import guarded
from paceline_agent.record.step_graph import Communication

if TYPE_CHECKING:
    from paceline_agent.watch.communications import Communications
    from paceline_agent.watch.device import Device


class Streams:
    """Which communications a stream carries that the computing stream has not waited for."""

    def __init__(self, seen: Communications, device: Device) -> None:
        self._seen = seen
        self._device = device
        self._carried: dict[int, list[Communication]] = {}
        # with the event, which so outlives the step: its number is its own, and a CUDA event forgets to tell weak
        # references that it goes (torch 2.11 crashes)
        self._recorded: dict[int, tuple[Any, list[Communication]]] = {}
        self.computing: Optional[int] = None

    def install(self) -> None:
        """Watch what streams wait for. wait_stream and record_event end in these two."""
        import torch

        self.computing = self._current()
        event_class: Any = torch.cuda.Event
        original_record, original_wait = event_class.record, event_class.wait
        recorded = guarded(self._seen.recorder, self._event_recorded)
        begin, end = guarded(self._seen.recorder, self._begin), guarded(self._seen.recorder, self._end)

        @functools.wraps(original_record)
        def record(event: Any, stream: Any = None) -> None:
            original_record(event, stream)
            if self._carried and self._seen.on:
                recorded(event, stream)

        @functools.wraps(original_wait)
        def wait(event: Any, stream: Any = None) -> None:
            token = begin(event, stream) if self._recorded and self._seen.on else None
            original_wait(event, stream)
            if token is not None:
                end(token)

        event_class.record, event_class.wait = record, wait

    def forget(self) -> None:
        """A step begins."""
        self._carried, self._recorded = {}, {}
        self.computing = self._current()

    def takes(self, communication: Communication) -> bool:
        """Whether the stream that has just waited for this is a side stream, which then carries it."""
        stream = self._current()
        if stream == self.computing:
            return False
        self._carried.setdefault(stream, []).append(communication)
        return True

    def _event_recorded(self, event: Any, stream: Any) -> None:
        carried = self._carried.get(self._current() if stream is None else int(stream.stream_id))
        if carried:
            self._recorded[id(event)] = (event, list(carried))

    def _begin(self, event: Any, stream: Any) -> Any:
        found = self._recorded.get(id(event))
        if found is None:
            return None
        waiting = self._current() if stream is None else int(stream.stream_id)
        owing = [c for c in found[1] if c.owed is not None]
        if waiting != self.computing:
            held = self._carried.setdefault(waiting, [])
            held += [c for c in owing if c not in held]
            return None
        return owing, stream, self._device.mark(stream)

    def _end(self, token: Any) -> None:
        owing, stream, begun = token
        ended = self._device.mark(stream)
        if begun is not None and ended is not None:
            self._seen.cover(owing, begun, ended)
        for carried in self._carried.values():
            carried[:] = [c for c in carried if c.owed is not None]

    @staticmethod
    def _current() -> int:
        import torch

        return int(torch._C._cuda_getCurrentStream(torch._C._cuda_getDevice())[0])
