"""Scripts that say `import horovod.torch`: paceline_horovod stands in where no Horovod is installed, and is measured.

The waits of a script on paceline_horovod are those of its main thread: for all gradients of a step together, or for one
collective called by hand.
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from time import perf_counter
from typing import Any

from paceline_agent.guard import guarded, say
from paceline_agent.recorder import Recorder


def provide() -> None:
    """Make `import horovod` find paceline_horovod, if that lies beside the agent and there is no other."""
    try:
        importlib.import_module("paceline_horovod.alias").install(_provided)
    except ImportError:
        return


def in_use() -> bool:
    return "paceline_horovod.torch.engine" in sys.modules


def watch(recorder: Recorder) -> None:
    """Time the waits of paceline_horovod from now on, if the script uses it."""
    if not in_use():
        return
    pending = sys.modules["paceline_horovod.torch.engine"].Pending
    buckets = sys.modules["paceline_horovod.torch.buckets"].Buckets
    together: list[float] = []  # waits inside Buckets.finish, which are one exchange
    inside = [False]

    def waited(seconds: float) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if inside[0]:
            together.append(seconds)
        else:
            recorder.exchanges.append([seconds, 0.0])

    def finished() -> None:
        recorder.exchanges.append([sum(together), 0.0])
        together.clear()

    _patch_wait(pending, guarded(recorder, waited))
    _patch_finish(buckets, inside, guarded(recorder, finished))


def _patch_wait(pending: Any, waited: Any) -> None:
    original = pending.wait

    @functools.wraps(original)
    def wait(self: Any) -> Any:
        begun = perf_counter()
        result = original(self)
        waited(perf_counter() - begun)
        return result

    pending.wait = wait


def _patch_finish(buckets: Any, inside: list[bool], finished: Any) -> None:
    original = buckets.finish

    @functools.wraps(original)
    def finish(self: Any) -> None:
        inside[0] = True
        try:
            original(self)
        finally:
            inside[0] = False
        finished()

    buckets.finish = finish


def _provided() -> None:
    say("no Horovod is installed: paceline_horovod provides `horovod`, over torch.distributed")
