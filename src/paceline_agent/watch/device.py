"""Times on a CUDA device: events that are recorded now and read after the trial. Nothing here synchronises a window."""

from __future__ import annotations

import weakref
from typing import Any, Callable


class Device:
    """Events for steps, waits and buckets on the current device."""

    def __init__(self) -> None:
        self._hooked: weakref.WeakSet[Any] = weakref.WeakSet()
        self._buckets: list[list[Any]] = []  # of the backward under way: [ready, exchanged] events
        self._previous: Any = None
        self._current_stream = _current_stream()

    def mark(self, stream: Any = None) -> Any:
        """An event on this stream, or on the current one. None while a CUDA graph is captured: unreadable."""
        import torch

        if torch.cuda.is_current_stream_capturing():
            return None
        event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(self._current_stream() if stream is None else stream)
        return event

    def takes(self, ddp: Any) -> bool:
        """Whether this DDP is new here, and gets a timing hook."""
        new = ddp not in self._hooked
        self._hooked.add(ddp)
        return new

    def bucket_ready(self) -> list[Any]:
        bucket = [self.mark(), None]
        self._buckets.append(bucket)
        return bucket

    def bucket_done(self, bucket: list[Any]) -> None:
        bucket[1] = self.mark()

    def take_buckets(self) -> list[list[Any]]:
        taken, self._buckets = self._buckets, []
        return taken

    def close_step(self, optimizer_mark: Any) -> dict[str, Any]:
        """The events of the step that ends now."""
        end = self.mark()
        marker = {"begin": self._previous, "optimizer": optimizer_mark, "end": end}
        self._previous = end
        return marker

    def resolve(self, steps: list[dict[str, Any]]) -> None:
        """After the trial: wait for the device once, then turn events into seconds."""
        import torch

        torch.cuda.synchronize()
        for step in steps:
            marker, graph = step["marker"], step["graph"]
            if step["loss"] is not None:
                step["loss"] = float(step["loss"])
            if marker is None:
                continue
            begin, end, optimizer = marker["begin"], marker["end"], marker["optimizer"]
            if begin is not None and end is not None:
                step["step_s"] = seconds_between(begin, end)
            seen = optimizer is not None and end is not None
            step["optimizer_s"] = seconds_between(optimizer, end) if seen else None
            if graph is not None:
                graph.resolve(begin, seconds_between)


def on_device(tensor: Any) -> bool:
    """Whether what is done with this tensor takes the device's time, not the host's."""
    return bool(tensor.is_cuda)


def seconds_between(begin: Any, end: Any) -> float:
    return float(begin.elapsed_time(end)) * 1e-3


def _current_stream() -> Callable[[], Any]:
    """torch.cuda.current_stream, which makes a new object in every call: two thirds of what an event costs. The same
    object again for as long as torch's own number of the stream, which is cheap to ask for, is the same."""
    import torch

    number = getattr(torch._C, "_cuda_getCurrentStream", None)
    device = getattr(torch._C, "_cuda_getDevice", None)
    if number is None or device is None:
        return torch.cuda.current_stream
    last: tuple[Any, Any] = (None, None)

    def current() -> Any:
        nonlocal last
        now = number(device())
        held = last  # once: an exchange ends on another thread, with a stream of its own
        if now != held[0]:
            last = held = (now, torch.cuda.current_stream())
        return held[1]

    return current
