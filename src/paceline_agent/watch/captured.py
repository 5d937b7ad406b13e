"""Steps that a CUDA graph replays: Python runs while the step is captured, and never again. A replay is a step.

    capture     backward, optimizer.step: noted with the graph and not recorded, for nothing is computed
    replay      those steps once more; the device's clock tells how long they took

What a replayed step exchanges happens inside the graph, where nobody can look: its length is known, its waits are not.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any, Optional

from paceline_agent.guard import guarded

if TYPE_CHECKING:
    from paceline_agent.agent import Agent

_NOTE = "_paceline_steps"


class Captured:
    """What a capture holds of a training step."""

    def __init__(self) -> None:
        self.optimizers: list[Any] = []  # in the order in which they step
        self.backwards = 0


class Graphs:
    """The capture under way, if there is one, and what graphs hold that were captured before."""

    def __init__(self) -> None:
        self.open: Optional[Captured] = None
        self.seen = False  # a graph that holds a step

    def watch(self, agent: Agent, graph_class: Any) -> None:
        """Hook the graph's begin, end and replay."""
        original_begin, original_end = graph_class.capture_begin, graph_class.capture_end
        original_replay = graph_class.replay
        replayed = guarded(agent.recorder, self._replayed)

        @functools.wraps(original_begin)
        def capture_begin(graph: Any, *args: Any, **kwargs: Any) -> Any:
            result = original_begin(graph, *args, **kwargs)
            self.open = Captured()
            return result

        @functools.wraps(original_end)
        def capture_end(graph: Any) -> Any:
            found, self.open = self.open, None
            result = original_end(graph)
            if found is not None and found.optimizers:
                self.seen = True
                with contextlib.suppress(AttributeError, TypeError):  # a graph of another kind takes no notes
                    setattr(graph, _NOTE, found)
            return result

        @functools.wraps(original_replay)
        def replay(graph: Any) -> Any:
            result = original_replay(graph)
            found = getattr(graph, _NOTE, None)
            if found is not None:
                replayed(agent, found)
            return result

        graph_class.capture_begin, graph_class.capture_end = capture_begin, capture_end
        graph_class.replay = replay

    def _replayed(self, agent: Agent, found: Captured) -> None:
        for number, optimizer in enumerate(found.optimizers):
            agent.recorder.looking = False
            agent.recorder.backwards += found.backwards if number == 0 else 0
            agent.replayed(optimizer)
