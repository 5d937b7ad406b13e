"""Handles: the numbers that asynchronous calls return, and what poll and synchronize do with them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from paceline_horovod.common.exceptions import NotAcceptedError
from paceline_horovod.common.process_sets import ProcessSet
from paceline_horovod.common.request import Request
from paceline_horovod.torch.engine import Pending
from paceline_horovod.torch.world import world

__all__ = ["Composed", "ask", "checked", "poll", "synchronize"]

Deliver = Callable[[Pending], Any]


@dataclass(frozen=True)
class Composed:
    """A handle made of several: done when they are, and its result is made of theirs."""

    parts: tuple[int, ...]
    result: Callable[[], Any]

    def __call__(self) -> Any:
        """The result: what Horovod returns for a sparse tensor is a function."""
        return self.result()


Handle = int | Composed

_numbers = itertools.count(1)
_handles: dict[int, tuple[Pending, Deliver]] = {}
_lock = threading.Lock()


def ask(
    kind: str,
    tensors: Sequence[torch.Tensor],
    *,
    name: str | None,
    process_set: ProcessSet,
    deliver: Deliver,
    op: str = "",
    root_rank: int = 0,
    prescale: float = 1.0,
    postscale: float = 1.0,
    splits: tuple[int, ...] | None = None,
) -> int:
    """Submit a collective; the handle under which `deliver` will hand over its result.

    Calls without a name are counted per process set: the third nameless call of one rank meets the third of the
    others, whatever it is, so a rank that calls something else is found out at once."""
    here = world()
    number = process_set.process_set_id
    if number is None or not process_set.included():
        raise NotAcceptedError(
            f"{kind}: rank {here.place.rank} cannot use {process_set}: it is not registered, or not its member"
        )
    if name is None:
        here.unnamed[number] = here.unnamed.get(number, 0) + 1
        full_name = f"noname.{here.unnamed[number]}"
    else:
        full_name = f"{kind}.{name}"
    request = Request(
        full_name,
        kind,
        number,
        dtypes=tuple(str(tensor.dtype) for tensor in tensors),
        shapes=tuple(tuple(tensor.shape) or _scalar_shape(kind) for tensor in tensors),
        device=tensors[0].device.type if tensors else "cpu",
        op=op,
        root_rank=root_rank,
        prescale=prescale,
        postscale=postscale,
        splits=splits,
    )
    pending = here.engine.submit(request, tensors)
    handle = next(_numbers)
    with _lock:
        _handles[handle] = (pending, deliver)
    return handle


def checked(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor without its history. Strided tensors only: a sparse one goes to sparse_allreduce_async."""
    if not isinstance(tensor, torch.Tensor):
        raise NotAcceptedError(f"a tensor is needed, not {type(tensor).__name__}")
    if tensor.layout is not torch.strided:
        raise NotAcceptedError(f"a dense tensor is needed, not a {tensor.layout} one; use tensor.to_dense()")
    return tensor.detach()


def poll(handle: Handle) -> bool:
    """Is it done, so that synchronize will not wait?"""
    if isinstance(handle, Composed):
        return all(poll(part) for part in handle.parts)
    with _lock:
        known = _handles.get(handle)
    return known is None or known[0].done()


def synchronize(handle: Handle) -> Any:
    """Wait for an asynchronous call; its result. A handle that was synchronized before gives None."""
    if isinstance(handle, Composed):
        return handle.result()
    with _lock:
        known = _handles.pop(handle, None)
    if known is None:
        return None
    pending, deliver = known
    pending.wait()
    return deliver(pending)


def _scalar_shape(kind: str) -> tuple[int, ...]:
    return (1,) if kind == "allgather" else ()  # a scalar is gathered as one row
