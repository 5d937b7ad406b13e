"""Start the agent in this process: at once where torch is to be used, or as soon as torch has been imported."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, Optional

from paceline_agent.agent import Agent
from paceline_agent.guard import say
from paceline_agent.record import files
from paceline_agent.settings import settings_from_environment
from paceline_agent.watch import horovod

_agents: list[Agent] = []  # one, once it has started


def start() -> Optional[Agent]:
    """The agent of this process, hooked into torch; None where no trial is asked for or torch is missing."""
    if _agents:
        return _agents[0]
    settings = settings_from_environment()
    if settings is None:
        return None
    try:
        import torch  # noqa: F401 - may itself start the agent, through the finder below

        if _agents:
            return _agents[0]
        agent = Agent(settings)
        agent.install()
        horovod.provide()
    except Exception as error:
        problem = f"not measuring: {type(error).__name__}: {error}"
        say(problem)
        with contextlib.suppress(Exception):
            rank = int(os.environ.get("RANK") or 0)
            files.write_json(settings.folder, f"manifest-{rank}.json", {"rank": rank, "problems": [problem]})
        return None
    _agents.append(agent)
    return agent


def running() -> Optional[Agent]:
    """The agent of this process, if it has started."""
    return _agents[0] if _agents else None


def start_after_torch() -> None:
    """For processes that a script starts itself: wait for their `import torch`, then start."""
    if settings_from_environment() is not None and "torch" not in sys.modules:
        sys.meta_path.insert(0, _TorchFinder())
        horovod.provide()


class _TorchFinder:
    """Stands first in line until torch is imported, then steps aside."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        import importlib.util

        spec = importlib.util.find_spec("torch")
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_then_start(module: Any) -> None:
            execute(module)
            start()

        spec.loader.exec_module = execute_then_start  # type: ignore[method-assign]
        return spec
