"""DistributedOptimizer(op=Adasum): every rank takes its own step, and Adasum combines the steps.

p' = p + adasum over ranks of (own step of the optimizer from p)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from paceline_horovod.torch.asynchronous import allreduce_async
from paceline_horovod.torch.buckets import Reduction
from paceline_horovod.torch.handles import synchronize
from paceline_horovod.torch.ops import Adasum

__all__ = ["AdasumOptimizer"]

_numbers = itertools.count()


class AdasumOptimizer(torch.optim.Optimizer):
    """What DistributedOptimizer adds for Adasum. The step is scale-free, so it needs no learning rate × size."""

    def _begin(
        self,
        named: list[tuple[str, torch.nn.Parameter]],
        reduction: Reduction,
        passes: int,
        groups: Sequence[Sequence[torch.nn.Parameter]],
    ) -> None:
        self._reduction = reduction
        self._passes = passes
        self._prefix = f"AdasumOptimizer.{next(_numbers)}"
        self._named = named

    @property
    def backward_passes_per_step(self) -> int:
        return self._passes

    def set_backward_passes_per_step(self, passes: int) -> None:
        self._passes = passes

    def synchronize(self) -> None:
        """Nothing to wait for: it is the steps that are combined, inside step()."""

    def skip_synchronize(self) -> AbstractContextManager[None]:
        raise AssertionError("skip_synchronize() has no meaning with Adasum: step() itself exchanges")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        trained = [(name, p) for name, p in self._named if p.requires_grad]
        before = [parameter.detach().clone() for _, parameter in trained]
        result = super().step() if closure is None else super().step(closure)
        compression, process_set = self._reduction.compression, self._reduction.process_set
        sent = []
        for (name, parameter), start in zip(trained, before, strict=True):
            delta, context = compression.compress(parameter.detach() - start)
            handle = allreduce_async(delta, name=f"{self._prefix}.{name}", op=Adasum, process_set=process_set)
            sent.append((handle, context))
        with torch.no_grad():
            for (_, parameter), start, (handle, context) in zip(trained, before, sent, strict=True):
                parameter.copy_(start + compression.decompress(synchronize(handle), context))
        return result

    step.hooked = True  # type: ignore[attr-defined]  # torch's own step hooks run once, in the optimizer's step
