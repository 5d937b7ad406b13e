"""Methods of torch.distributed's ProcessGroup, of its backends, and of Work: the layer under every library.

Which methods start an operation is asked of torch at run time: those that return a Work, and what joins them.
"""

from __future__ import annotations

import functools
import re
from time import perf_counter
from typing import Any, Callable

from paceline_agent.guard import guarded, stop_measuring
from paceline_agent.watch.communications import Communications

_GIVES_WORK = re.compile(r"\) -> [\w.:]*Work\b")
_BLOCKS = ("monitored_barrier",)  # returns nothing, and only when all are there
_WAITS = ("wait", "synchronize", "block_current_stream")
_SUFFIXES = re.compile(r"_(base|single|coalesced|into_tensor|tensor|anysource|out)(?=_|$)")
_SPLIT = {"allreduce": "all_reduce", "allgather": "all_gather", "alltoall": "all_to_all"}


def watch_collectives(seen: Communications) -> None:
    """Replace the methods that issue and those that wait; each calls the original first."""
    import torch
    from torch._C._distributed_c10d import Backend, ProcessGroup, Work

    for owner in (ProcessGroup, Backend):
        for name in issuing(owner):
            setattr(owner, name, _issuing(seen, name, getattr(owner, name)))
        for name, joining in (("_start_coalescing", _starting), ("_end_coalescing", _ending)):
            if hasattr(owner, name):
                setattr(owner, name, joining(seen, getattr(owner, name)))
    for name in _WAITS:
        if hasattr(Work, name):
            setattr(Work, name, _waiting(seen, getattr(Work, name)))
    for name in ("get_future", "get_future_result"):
        if hasattr(Work, name):
            setattr(Work, name, _giving_future(seen, getattr(Work, name)))
    future: Any = torch._C.Future
    future.wait = _waiting_for_future(seen, future.wait)


def issuing(owner: Any) -> list[str]:
    """The methods of a class that start an operation."""
    found = [
        n for n, method in vars(owner).items() if _GIVES_WORK.search(getattr(method, "__doc__", None) or "")
    ]
    return [n for n in found if "coalescing" not in n] + [n for n in _BLOCKS if hasattr(owner, n)]


def operation(name: str) -> str:
    """What an operation is called, whichever of its forms was used: `_allgather_base` is an all_gather."""
    plain = _SUFFIXES.sub("", name.strip("_")).replace("monitored_", "")
    return _SPLIT.get(plain, plain)


def _issuing(seen: Communications, method: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """The hot path, and that of _waiting: bound once, and the guard's own lines instead of a guard for each part."""
    op, clock, recorder, known = operation(method), perf_counter, seen.recorder, seen.groups.by_id
    about, issued = guarded(recorder, seen.about_to_issue), seen.issued

    @functools.wraps(original)
    def issue(group: Any, *args: Any, **kwargs: Any) -> Any:
        if not seen.on:
            return original(group, *args, **kwargs)
        found, before = known.get(id(group)), None
        if found is not None and seen.device is None and not seen.joined and found.reference() is group:
            before = found.learned.get(method)
        if before is None:
            before = about(group, method)
        begun = clock()
        result = original(group, *args, **kwargs)
        ended = clock()
        try:
            if before is not None:
                values = (*args, *kwargs.values()) if kwargs else args
                issued(op, method, before, begun, ended, values, result)
        except Exception as error:
            stop_measuring(recorder, f"issued: {type(error).__name__}: {error}")
        recorder.own_s += clock() - ended
        return result

    return issue


def _starting(seen: Communications, original: Callable[..., Any]) -> Callable[..., Any]:
    before, begin = guarded(seen.recorder, seen.about_to_issue), guarded(seen.recorder, seen.begin_joined)

    @functools.wraps(original)
    def start(group: Any, *args: Any, **kwargs: Any) -> Any:
        token = before(group, None) if seen.on else None
        result = original(group, *args, **kwargs)
        if token is not None:
            begin(token)
        return result

    return start


def _ending(seen: Communications, original: Callable[..., Any]) -> Callable[..., Any]:
    before, ended = guarded(seen.recorder, seen.about_to_issue), guarded(seen.recorder, seen.end_joined)

    @functools.wraps(original)
    def end(group: Any, *args: Any, **kwargs: Any) -> Any:
        token = before(group, None) if seen.on else None
        begun = perf_counter()
        result = original(group, *args, **kwargs)
        if token is not None:
            ended(token, begun, perf_counter(), result)
        return result

    return end


def _waiting(seen: Communications, original: Callable[..., Any]) -> Callable[..., Any]:
    clock, recorder, waited = perf_counter, seen.recorder, seen.waited
    about = guarded(recorder, seen.about_to_wait)

    @functools.wraps(original)
    def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
        if not seen.on:
            return original(work, *args, **kwargs)
        mark = None if seen.device is None else about(work)
        begun = clock()
        result = original(work, *args, **kwargs)
        ended = clock()
        try:
            waited(work, mark, begun, ended)
        except Exception as error:
            stop_measuring(recorder, f"waited: {type(error).__name__}: {error}")
        recorder.own_s += clock() - ended
        return result

    return wait


def _giving_future(seen: Communications, original: Callable[..., Any]) -> Callable[..., Any]:
    taken = guarded(seen.recorder, seen.future_taken)

    @functools.wraps(original)
    def get_future(work: Any, *args: Any, **kwargs: Any) -> Any:
        if seen.on:
            taken(work)
        return original(work, *args, **kwargs)

    return get_future


def _waiting_for_future(seen: Communications, original: Callable[..., Any]) -> Callable[..., Any]:
    waited = guarded(seen.recorder, seen.waited_future)

    @functools.wraps(original)
    def wait(future: Any, *args: Any, **kwargs: Any) -> Any:
        if not seen.on:
            return original(future, *args, **kwargs)
        begun = perf_counter()
        result = original(future, *args, **kwargs)
        waited(begun, perf_counter())
        return result

    return wait
