"""What survives a restart: networks, optimizers, samplers and plain values, as of the last commit."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import torch

from paceline_horovod.torch import world
from paceline_horovod.torch.elastic.commit import may_restart, write
from paceline_horovod.torch.elastic.plain import plain
from paceline_horovod.torch.elastic.sampler import ElasticSampler
from paceline_horovod.torch.functions import (
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)

__all__ = ["ObjectState", "TorchState"]


class ObjectState:
    """Plain values as attributes: state.epoch, state.batch. plain.py says what a commit can hold."""

    def __init__(self, **values: Any) -> None:
        self._values = list(values)
        self._callbacks: list[Callable[[], None]] = []
        for name, value in values.items():
            setattr(self, name, value)
        self._saved: dict[str, Any] = {}
        self.save()

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """Called after a restart, before training goes on: to scale the learning rate to the new size, say."""
        self._callbacks.extend(callbacks)

    def on_reset(self) -> None:
        for callback in self._callbacks:
            callback()

    def commit(self) -> None:
        """Remember the state, so that a restart goes on from here. All ranks call it; rank 0 writes the file.

        Where the launcher restarts nothing, nobody would read a file, and none is written."""
        self.save()
        if may_restart():
            everything = plain(self._for_everybody())
            if world.rank() == 0:
                write(everything)

    def _for_everybody(self) -> dict[str, Any]:
        """What a restart with other workers needs of the saved state."""
        return self._saved

    def check_host_updates(self) -> None:
        """torchrun itself ends and restarts the workers when hosts come or go: there is nothing to ask here."""

    def save(self) -> None:
        """Remember the state in memory, for restore()."""
        self._saved = {name: copy.deepcopy(getattr(self, name)) for name in self._values}

    def restore(self) -> None:
        """Back to the last save or commit."""
        self.load(self._saved)

    def load(self, saved: dict[str, Any]) -> None:
        """The state that a commit file held."""
        for name in self._values:
            setattr(self, name, copy.deepcopy(saved[name]))
        self._saved = saved

    def sync(self) -> None:
        """Everybody gets rank 0's values."""
        values = broadcast_object({name: getattr(self, name) for name in self._values})
        for name, value in values.items():
            setattr(self, name, value)
        self.save()


class TorchState(ObjectState):
    """A network, an optimizer, any other modules, optimizers and ElasticSamplers by name, and plain values."""

    def __init__(self, model: Any = None, optimizer: Any = None, **others: Any) -> None:
        given = {"model": model, "optimizer": optimizer, **others}
        stateful = (torch.nn.Module, torch.optim.Optimizer, ElasticSampler)
        self._stateful = {name: value for name, value in given.items() if isinstance(value, stateful)}
        for name, value in self._stateful.items():
            setattr(self, name, value)
        super().__init__(**{k: v for k, v in given.items() if k not in self._stateful and v is not None})

    def __setattr__(self, name: str, value: Any) -> None:
        """A network or optimizer that takes another's place is saved in its stead."""
        if name in self.__dict__.get("_stateful", {}):
            self._stateful[name] = value
        super().__setattr__(name, value)

    def save(self) -> None:
        super().save()
        for name, value in self._stateful.items():
            self._saved[name] = copy.deepcopy(value.state_dict())

    def load(self, saved: dict[str, Any]) -> None:
        super().load(saved)
        for name, value in self._stateful.items():
            if isinstance(value, ElasticSampler) and value.epoch == saved[name]["epoch"]:
                # not dealt out again: without the others' word this rank could take samples that are theirs
                value.processed_indices = set(saved[name]["processed_indices"])
            else:
                value.load_state_dict(copy.deepcopy(saved[name]))

    def sync(self) -> None:
        """Everybody gets rank 0's state; samplers get what any rank has processed."""
        for value in self._stateful.values():
            if isinstance(value, torch.nn.Module):
                broadcast_parameters(value.state_dict(), root_rank=0)
            elif isinstance(value, torch.optim.Optimizer):
                broadcast_optimizer_state(value, root_rank=0)
            else:
                value.load_state_dict(_shared_state(value))
        super().sync()

    def _for_everybody(self) -> dict[str, Any]:
        """The saved state, in which samplers know what any rank has processed; here each goes on with its own."""
        samplers = {n: v for n, v in self._stateful.items() if isinstance(v, ElasticSampler)}
        return {**self._saved, **{name: _shared_state(sampler) for name, sampler in samplers.items()}}


def _shared_state(sampler: ElasticSampler) -> dict[str, Any]:
    states = allgather_object(sampler.state_dict())
    processed: set[int] = set().union(*(state["processed_indices"] for state in states))
    return {"epoch": states[0]["epoch"], "processed_indices": sorted(processed)}
