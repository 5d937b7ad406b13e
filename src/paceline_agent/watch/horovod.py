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
from paceline_agent.watch.communications import Communications


def provide() -> None:
    """Make `import horovod` find paceline_horovod, if that lies beside the agent and there is no other."""
    try:
        importlib.import_module("paceline_horovod.alias").install(_provided)
    except ImportError:
        return


def in_use() -> bool:
    return "paceline_horovod.torch.engine" in sys.modules


def watch(seen: Communications) -> None:
    """Time the waits of paceline_horovod from now on, if the script uses it."""
    if not in_use():
        return
    pending = sys.modules["paceline_horovod.torch.engine"].Pending
    original = pending.wait
    joined = guarded(seen.recorder, _joined)

    @functools.wraps(original)
    def wait(self: Any) -> Any:
        begun = perf_counter()
        result = original(self)
        if seen.on:
            joined(seen, begun, perf_counter())
        return result

    pending.wait = wait


def _joined(seen: Communications, begun: float, ended: float) -> None:
    if threading.current_thread() is threading.main_thread():
        seen.waited_elsewhere(begun, ended)


def _provided() -> None:
    say("no Horovod is installed: paceline_horovod provides `horovod`, over torch.distributed")
