"""Keras 3 on torch takes its steps with optimizers of its own, which torch's hooks do not see: theirs is hooked, too.

Keras' train_step     forward   backward   (Horovod's exchange)   BaseOptimizer.apply
                                                                  ^ before_optimizer   ^ after_optimizer
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import weakref
from typing import TYPE_CHECKING, Any

from paceline_agent.guard import guarded

if TYPE_CHECKING:
    from paceline_agent.agent import Agent

_MODULE = "keras.src.optimizers.base_optimizer"


def watch_keras(agent: Agent) -> None:
    """Hook the optimizers of Keras: now if it has been imported, else as soon as it is."""
    if _MODULE in sys.modules:
        _hook(agent, sys.modules[_MODULE])
    else:
        sys.meta_path.insert(0, _Finder(agent))


class _Finder:
    """Stands in line until Keras' optimizers are imported, then steps aside."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_then_hook(module: Any) -> None:
            execute(module)
            guarded(self._agent.recorder, _hook)(self._agent, module)

        spec.loader.exec_module = execute_then_hook  # type: ignore[method-assign]
        return spec


class KerasOptimizer:
    """A Keras optimizer as the agent knows those of torch. Its class is named after it."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = weakref.ref(optimizer)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """What the manifest needs: the weights it trains, and its numbers. Read after the trial."""
        optimizer = self._optimizer()
        if optimizer is None:
            return []
        numbers = {k: v for k, v in optimizer.get_config().items() if isinstance(v, (int, float))}
        weights = [variable.value for variable in optimizer._trainable_variables]
        return [{**numbers, "lr": float(optimizer.learning_rate), "params": weights}]


def _hook(agent: Agent, module: Any) -> None:
    import torch

    base = module.BaseOptimizer
    original = base.apply
    before = guarded(agent.recorder, agent.before_optimizer)
    after = guarded(agent.recorder, agent.after_optimizer)
    known: Any = weakref.WeakKeyDictionary()

    @functools.wraps(original)
    def apply(self: Any, grads: Any, *args: Any, **kwargs: Any) -> Any:
        # on another backend, or while torch compiles, a call is not a step
        if torch.compiler.is_compiling() or not any(isinstance(g, torch.Tensor) for g in grads):
            return original(self, grads, *args, **kwargs)
        if self not in known:
            known[self] = type(type(self).__name__, (KerasOptimizer,), {})(self)
        before(known[self], args, kwargs)
        result = original(self, grads, *args, **kwargs)
        after(known[self], args, kwargs)
        return result

    base.apply = apply
