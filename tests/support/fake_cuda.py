"""A CUDA device that is not there: its streams and events have this host's clock, and refuse to be waited for.

Tensors stay on the CPU, where everything is over when it returns; so an event's time is when it was recorded. A wait
on a side stream, which on a device blocks nobody, is put off until the computing stream waits for an event that was
recorded after it. To synchronise or to read an event while something is measured is an error: a device would stop.
"""

import contextlib
import time
from types import SimpleNamespace


class FakeCuda:
    """Streams, the current one, and what waits on them."""

    def __init__(self, wait):
        self.wait = wait  # Work.wait, as torch has it
        self.is_measuring = lambda: False
        self.main = SimpleNamespace(stream_id=0)
        self.current = self.main
        self.put_off = {}  # stream -> works that it waits for

    def work_wait(self, work, *args):
        if self.current is self.main:
            return self.wait(work, *args)
        self.put_off.setdefault(self.current.stream_id, []).append(work)
        return True

    def refuse_while_measuring(self, what):
        if self.is_measuring():
            raise AssertionError(f"{what} while a step is measured")

    @contextlib.contextmanager
    def stream(self, stream):
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before


def install():
    """Put it in torch's place, before an agent looks. What it gives tells whether something is measured."""
    import torch
    from torch.distributed import Work

    fake = FakeCuda(Work.wait)

    class Event:
        def __init__(self, enable_timing=False):
            self.at, self.works = None, []

        def record(self, stream=None):
            self.at, self.works = (
                time.perf_counter(),
                list(fake.put_off.get((stream or fake.current).stream_id, ())),
            )

        def wait(self, stream=None):
            if (stream or fake.current) is fake.main:
                while self.works:
                    fake.wait(self.works.pop(0))

        def synchronize(self):
            fake.refuse_while_measuring("Event.synchronize")

        def query(self):
            fake.refuse_while_measuring("Event.query")
            return True

        def elapsed_time(self, end):
            fake.refuse_while_measuring("Event.elapsed_time")
            return 1e3 * (end.at - self.at)

    class Stream:
        made = 0

        def __init__(self):
            Stream.made += 1
            self.stream_id = Stream.made

        def wait_event(self, event):
            event.wait(self)

        def synchronize(self):
            fake.refuse_while_measuring("Stream.synchronize")

    fake.main = fake.current = Stream()
    Work.wait = lambda work, *args: fake.work_wait(work, *args)
    torch.cuda.Event, torch.cuda.Stream, torch.cuda.stream = Event, Stream, fake.stream
    torch.cuda.current_stream = lambda device=None: fake.current
    torch.cuda.is_current_stream_capturing = lambda: False
    torch.cuda.synchronize = lambda device=None: fake.refuse_while_measuring("torch.cuda.synchronize")
    torch._C._cuda_getCurrentStream = lambda device: (fake.current.stream_id, device, 1)
    torch._C._cuda_getDevice = lambda: 0
    return fake
