"""One thread per rank that carries out, in rank 0's order, what all ranks have asked for.

    caller          submit ──request──▶ rank 0 …                         wait ──▶ result
    engine thread                        … ──response──▶ carry_out ──▶ done

All ranks see the same responses in the same order, so collectives can never cross, whatever order the callers used.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence
from time import monotonic
from typing import Any

import torch
import torch.distributed as dist

from paceline_horovod.common.exceptions import DuplicateNameError, HorovodInternalError
from paceline_horovod.common.lines import BYE
from paceline_horovod.common.request import Request, Response, from_line, to_line
from paceline_horovod.torch.exchange import Members, carry_out, new_group
from paceline_horovod.torch.timeline import Timeline

__all__ = ["Engine", "Pending"]

_TAKEN_S = (
    0.005  # a name nobody waited for is taken so long: whether it may be used again is not left to chance
)


class Pending:
    """One collective of this rank, from its request to its result."""

    def __init__(self, request: Request, tensors: Sequence[torch.Tensor]) -> None:
        self.request = request
        self.tensors = tensors
        self.results: list[torch.Tensor] = []
        self.response: Response | None = None
        self.error: Exception | None = None
        self.asked_s = monotonic()
        self.heard = False  # the caller knows that it is done
        self._done = threading.Event()
        on_device = bool(tensors) and tensors[0].is_cuda
        self.ready_mark = torch.cuda.current_stream(tensors[0].device).record_event() if on_device else None
        self.result_mark: Any = None

    def finish(self) -> None:
        self._done.set()

    def done(self) -> bool:
        self.heard = self._done.is_set() and (self.result_mark is None or bool(self.result_mark.query()))
        return self.heard

    def wait(self) -> Response:
        """Until it is done; raises what went wrong."""
        self._done.wait()
        self.heard = True
        if self.error is not None:
            raise self.error
        if self.result_mark is not None:
            torch.cuda.current_stream(self.tensors[0].device).wait_event(self.result_mark)
        assert self.response is not None
        return self.response


class Engine:
    """The connection to rank 0 and the thread that listens on it."""

    def __init__(self, rank: int, connection: socket.socket, everybody: Members, timeline: Timeline) -> None:
        self.rank = rank
        self.timeline = timeline
        self.sets: dict[int, Members] = {0: everybody}
        self.joined_device = 0  # where a joined rank puts its zeros, when the others' tensors are on CUDA
        self._streams: dict[torch.device, Any] = {}
        self._connection = connection
        self._pending: dict[tuple[int, str], Pending] = {}
        self._taken: dict[tuple[int, str], Pending] = {}  # by the time they were asked for
        self._lock = threading.Lock()
        self._closed: str | None = None
        self._thread = threading.Thread(target=self._listen, name="paceline-horovod", daemon=True)
        self._thread.start()

    def submit(self, request: Request, tensors: Sequence[torch.Tensor]) -> Pending:
        """Ask for a collective. The tensors must stay as they are until it is done."""
        pending = Pending(request, tensors)
        key = (request.process_set, request.name)
        with self._lock:
            if self._closed is not None:
                raise HorovodInternalError(f"{request.name}: {self._closed}")
            self._give_names_back(pending.asked_s)
            if key in self._pending or (key in self._taken and not self._taken[key].heard):
                raise DuplicateNameError(
                    f"{request.name} is still being exchanged; wait for it, or give this one another name"
                )
            self._pending[key] = pending
            self._taken.pop(key, None)
            self._taken[key] = pending
            try:
                self._connection.sendall(to_line(request))
            except OSError as problem:
                del self._pending[key]
                raise HorovodInternalError(f"{request.name}: rank 0 has gone: {problem}") from problem
        return pending

    def close(self) -> None:
        """Say goodbye. What is still pending ends with an error."""
        with contextlib.suppress(OSError):
            self._connection.sendall(BYE)
            self._connection.shutdown(socket.SHUT_WR)
        self._thread.join(timeout=10)
        self._connection.close()
        for members in list(self.sets.values()):
            with contextlib.suppress(Exception):
                dist.destroy_process_group(members.group)

    def _give_names_back(self, now_s: float) -> None:
        while self._taken:
            key, oldest = next(iter(self._taken.items()))
            if now_s - oldest.asked_s < _TAKEN_S:
                return
            del self._taken[key]

    def _listen(self) -> None:
        reason = "Horovod has been shut down"
        try:
            with self._connection.makefile("rb") as lines:
                for line in lines:
                    response = from_line(line)
                    if isinstance(response, Response):
                        self._answer(response)
        except OSError as problem:
            reason = f"rank 0 has gone: {problem}"
        with self._lock:
            self._closed = reason
            left = list(self._pending.values())
            self._pending.clear()
        for pending in left:
            pending.error = HorovodInternalError(f"{pending.request.name}: {reason}")
            pending.finish()

    def _answer(self, response: Response) -> None:
        with self._lock:
            pending = self._pending.pop((response.process_set, response.name), None)
        if response.error:
            if pending is not None:
                pending.error = HorovodInternalError(response.error)
                pending.finish()
            return
        begun_s = monotonic()
        try:
            if pending is None:  # this rank has joined: it takes part with zeros
                self._contribute_zeros(response)
            else:
                pending.response = response
                pending.results = self._on_its_device(response, pending)
        except (
            Exception
        ) as problem:  # a lost peer, usually: the error belongs to whoever waits for the result
            if pending is not None:
                pending.error = HorovodInternalError(f"{response.name}: {problem}")
        if pending is not None:
            pending.finish()
            self.timeline.add(response.request, asked_s=pending.asked_s, begun_s=begun_s, ended_s=monotonic())

    def _on_its_device(self, response: Response, pending: Pending) -> list[torch.Tensor]:
        request = response.request
        if request.kind == "add_set":
            self._add_set(request)
            return []
        if request.kind == "remove_set":
            self._remove_set(request.root_rank)
            return []
        members = self.sets[response.process_set]
        with torch.no_grad():
            if pending.ready_mark is None:
                return carry_out(response, pending.tensors, members)
            device = pending.tensors[0].device
            new_stream: Any = torch.cuda.Stream
            if device not in self._streams:
                self._streams[device] = new_stream(device)
            stream = self._streams[device]
            with torch.cuda.device(device), torch.cuda.stream(stream):
                stream.wait_event(pending.ready_mark)
                results = carry_out(response, pending.tensors, members)
                for tensor in (*pending.tensors, *results):
                    tensor.record_stream(stream)
                pending.result_mark = stream.record_event()
            return results

    def _contribute_zeros(self, response: Response) -> None:
        members = self.sets[response.process_set]
        if response.request.device != "cuda":
            carry_out(response, _zeros(response.request), members)
            return
        with torch.cuda.device(self.joined_device):
            carry_out(response, _zeros(response.request), members)

    def _add_set(self, request: Request) -> None:
        group = new_group(request.ranks)
        own = request.ranks.index(self.rank) if self.rank in request.ranks else -1
        self.sets[request.root_rank] = Members(request.ranks, own, group)

    def _remove_set(self, process_set: int) -> None:
        members = self.sets.pop(process_set, None)
        if members is not None and members.own >= 0:
            dist.destroy_process_group(members.group)


def _zeros(request: Request) -> list[torch.Tensor]:
    return [
        torch.zeros(shape, dtype=getattr(torch, dtype.removeprefix("torch.")), device=request.device)
        for shape, dtype in zip(request.shapes, request.dtypes, strict=True)
    ]
