"""hvd.elastic.run: a training function that goes on from its last commit when torchrun starts it again."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

from paceline_horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from paceline_horovod.torch import world
from paceline_horovod.torch.elastic import commit

__all__ = ["run"]


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """func(state, …) with the state of the last commit after a restart, and the same state on all ranks.

    When a collective fails because a worker was lost, this worker ends too, and torchrun (--max-restarts) starts all
    again. Without a launcher that restarts, the error is simply raised."""

    @functools.wraps(func)
    def elastic(state: Any, *args: Any, **kwargs: Any) -> Any:
        world.init()
        again = int(os.environ.get("TORCHELASTIC_RESTART_COUNT") or 0) > 0
        first = world.rank() == 0 and commit.may_restart()
        if first and again:
            committed = commit.read()
            if committed is not None:
                state.load(committed)
        elif first:
            commit.discard()  # an earlier launch of the same name may have left one
        state.sync()
        if again:
            state.on_reset()
        try:
            result = func(state, *args, **kwargs)
        except (HorovodInternalError, HostsUpdatedInterrupt) as problem:
            sys.stderr.write(f"paceline-horovod: rank {world.rank()} ends to be started again: {problem}\n")
            raise
        if first:
            commit.discard()
        return result

    return elastic
