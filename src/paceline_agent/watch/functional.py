"""Functional collectives: torch.ops._c10d_functional, which DTensor, tensor parallelism and compiled code call.

They give tensors instead of a Work, and wait_tensor waits for one. What an operator object calls in C++ is replaced,
so the objects stay what compilers know them by, and code that is being traced moves nothing and is passed over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from time import perf_counter
from typing import Any

from paceline_agent.guard import guarded, stop_measuring
from paceline_agent.record.step_graph import MISSED, Communication
from paceline_agent.watch.collectives import operation
from paceline_agent.watch.communications import Communications

_ALIGNED = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "shard_dim_all_to_all"}
_SPACES = ("_c10d_functional", "_c10d_functional_autograd", "_dtensor")


def watch_functional(seen: Communications) -> None:
    """Watch every operator of these spaces that torch has."""
    import torch

    for qualified in torch._C._dispatch_get_all_op_names():
        space, _, name = str(qualified).partition("::")
        if space not in _SPACES or "." in name:
            continue
        packet = getattr(getattr(torch.ops, space), name)
        watched = _Waits if name == "wait_tensor" else _Issues
        for operator in (packet, *(getattr(packet, overload) for overload in packet.overloads())):
            operator._op = watched(seen, operation(name), operator._op)


class _Operator(ABC):
    """What an operator object calls, with the hash of the original: compilers keep operators in tables by it."""

    def __init__(self, seen: Communications, op: str, original: Any) -> None:
        self.seen, self.op, self.original = seen, op, original
        self._before = guarded(seen.recorder, self._begin)

    def __hash__(self) -> int:
        return hash(self.original)

    def __eq__(self, other: Any) -> bool:
        return self is other or self.original == other

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.seen.on:
            return self.original(*args, **kwargs)
        token = self._before(args)
        begun = perf_counter()
        result = self.original(*args, **kwargs)
        ended = perf_counter()
        try:
            if token is not None:
                self._end(token, begun, ended, args, result)
        except Exception as error:
            stop_measuring(self.seen.recorder, f"{self.op}: {type(error).__name__}: {error}")
        self.seen.recorder.own_s += perf_counter() - ended
        return result

    @abstractmethod
    def _begin(self, args: Any) -> Any:
        """What is known before the call; None: not watched."""

    @abstractmethod
    def _end(self, token: Any, begun: float, ended: float, args: Any, result: Any) -> None:
        """What the call did."""


class _Issues(_Operator):
    def _begin(self, args: Any) -> Any:
        named = [known for value in args if type(value) is str and (known := self.seen.groups.named(value))]
        return [(group, group.count()) for group in named or self.seen.groups.all()]

    def _end(self, token: Any, begun: float, ended: float, args: Any, result: Any) -> None:
        seen = self.seen
        moved = [group for group, before in token if seen.count(group, before)]
        if len(moved) != 1:
            return  # nothing was sent: traced, or a group of one
        if self.op not in _ALIGNED:
            seen.graph.doubt(MISSED)  # messages in compiled code: to whom is not known here
            return
        results = result if isinstance(result, (list, tuple)) else (result,)
        size, dtype, on_device = seen.payload((*args, list(results)))
        communication = Communication(self.op, moved[0], size, dtype, seen.phases.now(), begun)
        communication.on_device = on_device
        seen.produced(results, communication)
        seen.place(communication)


class _Waits(_Operator):
    def _begin(self, args: Any) -> Any:
        return self.seen.about_to_wait_tensor(args[0])

    def _end(self, token: Any, begun: float, ended: float, args: Any, result: Any) -> None:
        self.seen.waited_tensor(token, begun, ended)
