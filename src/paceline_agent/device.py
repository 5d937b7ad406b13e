"""Times on a CUDA device: events that are recorded now and read after the trial. Nothing here synchronises a window."""

from __future__ import annotations

import functools
import weakref
from typing import Any, Callable, Optional

from paceline_agent.recorder import Recorder


class Device:
    """Events for steps and exchanges of the current device."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._hooked: weakref.WeakSet[Any] = weakref.WeakSet()
        self._buckets: list[list[Any]] = []  # of the backward under way: [begin, end] events
        self._open: list[
            tuple[Any, Any]
        ] = []  # of the open step, per backward: its first and its last bucket
        self._bytes = 0
        self._previous: Any = None
        self._current_stream = _current_stream()

    def mark(self) -> Any:
        """An event on the current stream, or None while a CUDA graph is captured: a captured event cannot be read."""
        import torch

        if torch.cuda.is_current_stream_capturing():
            return None
        event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(self._current_stream())
        return event

    def ensure_hook(self, ddp: Any, register: Callable[..., None]) -> None:
        """Register the timing hook on this DDP, once."""
        if ddp not in self._hooked:
            self._hooked.add(ddp)
            register(ddp, ddp.process_group, self.timed_hook(all_reduce_hook))

    def timed_hook(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """The same hook, with an event when a bucket is ready and one when its exchange has ended."""

        @functools.wraps(hook)
        def timed(state: Any, bucket: Any) -> Any:
            begin = self._note_begin(bucket) if self.recorder.looking else None
            future = hook(state, bucket)
            if begin is None:
                return future

            def ended(done: Any) -> Any:
                self._note_end(begin)
                return done.value()

            return future.then(ended)

        del (
            timed.__wrapped__
        )  # torch inspects the signature: it must be ours, whose parameter is called bucket
        return timed

    def _note_begin(self, bucket: Any) -> Optional[list[Any]]:
        try:
            event = self.mark()
            if event is None:
                return None
            buffer = bucket.buffer()
            self._bytes += buffer.numel() * buffer.element_size()
            pair = [event, None]
            self._buckets.append(pair)
            return pair
        except Exception as error:
            self.recorder.problems.append(f"exchange not timed: {error}")
            return None

    def _note_end(self, pair: list[Any]) -> None:
        try:
            pair[1] = self.mark()
        except Exception as error:
            self.recorder.problems.append(f"exchange not timed: {error}")

    def after_backward(self) -> None:
        buckets, self._buckets = self._buckets, []
        if buckets:
            self._open.append((buckets[0], buckets[-1]))

    def forget_backward(self) -> None:
        """This step is not looked at."""
        self._buckets, self._bytes = [], 0

    def take_bytes(self) -> int:
        taken, self._bytes = self._bytes, 0
        return taken

    def close_step(self, optimizer_mark: Any) -> dict[str, Any]:
        """The events of the step that ends now."""
        end = self.mark()
        marker = {"begin": self._previous, "optimizer": optimizer_mark, "end": end, "exchanges": self._open}
        self._previous, self._open = end, []
        return marker

    def resolve(self, steps: list[dict[str, Any]]) -> None:
        """After the trial: wait for the device once, then turn events into seconds."""
        import torch

        torch.cuda.synchronize()
        for step in steps:
            marker = step["marker"]
            if step["loss"] is not None:
                step["loss"] = float(step["loss"])
            if marker is None:
                continue
            begin, end, optimizer = marker["begin"], marker["end"], marker["optimizer"]
            if begin is not None and end is not None:
                step["step_s"] = begin.elapsed_time(end) * 1e-3
            seen = optimizer is not None and end is not None
            step["optimizer_s"] = optimizer.elapsed_time(end) * 1e-3 if seen else None
            for first, last in marker["exchanges"] if step["exchanges"] is not None else ():
                if last[1] is not None:
                    wait_s = max(0.0, last[0].elapsed_time(last[1]) * 1e-3)
                    overlap_s = max(0.0, first[0].elapsed_time(last[0]) * 1e-3)
                    step["exchanges"].append([wait_s, overlap_s])


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


def all_reduce_hook(group, bucket):  # type: ignore[no-untyped-def] # torch refuses annotations it does not know
    """What DDP does without a hook: scale by 1/n, then sum. A multiplication, as in DDP's own path: bit-identical."""
    import torch.distributed as dist

    buffer = bucket.buffer()
    buffer.mul_(1.0 / dist.get_world_size(group))
    future = dist.distributed_c10d.all_reduce(buffer, group=group, async_op=True).get_future()
    return future.then(lambda done: done.value()[0])
