"""A Keras optimizer that applies the gradients of all ranks.

Keras hands all gradients of a step to the optimizer at once, so they are reduced together at that moment.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import torch

from paceline_horovod.common.process_sets import ProcessSet, global_process_set
from paceline_horovod.torch.compression import Compression, Compressor
from paceline_horovod.torch.mpi_ops import grouped_allreduce
from paceline_horovod.torch.ops import Average, Op, Sum

__all__ = ["DistributedOptimizer", "hint_old_arguments", "load_model"]

_RENAMED = {"lr": "learning_rate", "decay": "a keras.optimizers.schedules schedule as learning_rate"}


def DistributedOptimizer(  # noqa: N802 - Horovod's name
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: Op = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The optimizer itself, which from now on reduces gradients over all ranks before it applies them.

    backward_passes_per_step      how many batches add up before the gradients are reduced and applied
    average_aggregated_gradients  divides that sum by their number

    `device_dense`, `device_sparse`, `sparse_as_dense`, `num_groups` and `groups` are accepted for old scripts:
    gradients are reduced where they lie, all together, and Keras on torch makes them dense."""
    if backward_passes_per_step <= 0:
        raise ValueError(f"backward_passes_per_step must be > 0, not {backward_passes_per_step}")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError(
            f"gradient_predivide_factor={gradient_predivide_factor} splits an average, but op is {Op(op).name}"
        )
    plain = type(optimizer)
    if issubclass(plain, Reducing):
        raise ValueError(f"{plain.__name__} is distributed already")
    optimizer.__class__ = type(plain.__name__, (Reducing, plain), {"__module__": plain.__module__})
    if name is not None:
        optimizer.name = name
    factor = gradient_predivide_factor
    split_average = (Sum, 1 / factor, factor / process_set.size())
    scales = (Op(op), 1.0, 1.0) if factor == 1.0 else split_average
    optimizer._horovod = Sharing(
        compression, scales, process_set, backward_passes_per_step, average_aggregated_gradients
    )
    return optimizer


class Sharing:
    """How an optimizer's gradients are shared, and those of the passes since the last exchange.

    A plain object: Keras takes lists and tuples that are set on an optimizer apart."""

    def __init__(
        self,
        compression: type[Compressor],
        scales: tuple[Op, float, float],
        process_set: ProcessSet,
        passes: int,
        average_passes: bool,
    ) -> None:
        self.compression, self.scales, self.process_set = compression, scales, process_set
        self.passes, self.average_passes = passes, average_passes
        self.count = 0
        self.sums: list[Any] = []

    def added(self, gradients: Sequence[Any]) -> list[Any] | None:
        """The gradients of all passes together, after the last of them; None before."""
        if self.passes == 1:
            return list(gradients)
        self.count += 1
        if self.count == 1:
            self.sums = [None] * len(gradients)
        for i, gradient in enumerate(gradients):
            if gradient is not None:
                self.sums[i] = gradient.clone() if self.sums[i] is None else self.sums[i].add_(gradient)
        if self.count < self.passes:
            return None
        self.count = 0
        share = self.passes if self.average_passes else 1
        return [None if total is None else total.div_(share) for total in self.sums]

    def reduced(self, gradients: list[Any]) -> list[Any]:
        """The gradients of all ranks."""
        present = [i for i, gradient in enumerate(gradients) if gradient is not None]
        if not present or not self.process_set.included() or self.process_set.size() == 1:
            return gradients
        op, before, after = self.scales
        results = grouped_allreduce(
            [gradients[i] for i in present],
            compression=self.compression,
            op=op,
            prescale_factor=before,
            postscale_factor=after,
            process_set=self.process_set,
        )
        for i, result in zip(present, results, strict=True):
            gradients[i] = result
        return gradients


class Reducing:
    """What DistributedOptimizer puts in front of a Keras optimizer."""

    _horovod: Sharing
    iterations: Any

    def apply(self, grads: Sequence[Any], trainable_variables: Any = None) -> Any:
        with torch.no_grad():
            together = self._horovod.added(grads)
            if together is None:
                self.iterations.assign_add(1)  # schedules count batches
                return None
            shared = self._horovod.reduced(together)
        own: Any = super()
        return own.apply(shared, trainable_variables)


def load_model(
    filepath: str,
    custom_optimizers: Sequence[type] | None = None,
    custom_objects: Mapping[str, Any] | None = None,
    compression: type[Compressor] = Compression.none,
) -> Any:
    """A saved model whose optimizer, with its state, is distributed. The file may come from one worker or many."""
    known = {cls.__name__: cls for cls in custom_optimizers or ()} | dict(custom_objects or {})
    model = keras.saving.load_model(filepath, custom_objects=known)
    if getattr(model, "optimizer", None) is not None:
        DistributedOptimizer(model.optimizer, compression=compression)
    return model


def hint_old_arguments() -> None:
    """Arguments that Keras 3 no longer knows (lr) are answered with their new name."""
    base: Any = keras.optimizers.Optimizer
    if getattr(base.__init__, "hints", False):
        return
    original = base.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        for old, new in _RENAMED.items():
            if kwargs.get(old) is not None:
                raise ValueError(
                    f"keras.optimizers.{type(self).__name__}({old}={kwargs[old]}): Keras 3 has no {old}; write {new}"
                )
        original(self, *args, **kwargs)

    init.hints = True  # type: ignore[attr-defined]
    base.__init__ = init
