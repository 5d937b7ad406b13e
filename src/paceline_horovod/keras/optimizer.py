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
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The optimizer itself, which from now on reduces gradients over all ranks before it applies them.

    `device_dense`, `device_sparse` and `sparse_as_dense` are accepted for old scripts: gradients are reduced where they
    lie, and Keras on torch makes them dense."""
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
    optimizer._horovod = (compression, scales, process_set)
    return optimizer


class Reducing:
    """What DistributedOptimizer puts in front of a Keras optimizer."""

    _horovod: tuple[Any, tuple[Op, float, float], ProcessSet]

    def apply(self, grads: Sequence[Any], trainable_variables: Any = None) -> Any:
        compression, (op, before, after), process_set = self._horovod
        reduced = list(grads)
        present = [i for i, gradient in enumerate(reduced) if gradient is not None]
        if present and process_set.included() and process_set.size() > 1:
            with torch.no_grad():
                results = grouped_allreduce(
                    [reduced[i] for i in present],
                    compression=compression,
                    op=op,
                    prescale_factor=before,
                    postscale_factor=after,
                    process_set=process_set,
                )
            for i, result in zip(present, results, strict=True):
                reduced[i] = result
        own: Any = super()
        return own.apply(reduced, trainable_variables)


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
