"""Numbers, arrays and variables over all ranks, for Keras scripts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from paceline_horovod.torch import functions, mpi_ops
from paceline_horovod.torch.ops import Op, chosen_op

__all__ = ["allgather", "allreduce", "broadcast", "broadcast_variables"]


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: Op | None = None,
) -> Any:
    """The reduction of a number, array or tensor over all ranks, as numpy (a tensor stays a tensor)."""
    return _like(
        value,
        mpi_ops.allreduce(
            _tensor(value),
            name=name,
            op=chosen_op(op, average),
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
        ),
    )


def allgather(value: Any, name: str | None = None) -> Any:
    """The rows of all ranks."""
    return _like(value, mpi_ops.allgather(_tensor(value), name=name))


def broadcast(value: Any, root_rank: int, name: str | None = None) -> Any:
    """The root's value."""
    return _like(value, mpi_ops.broadcast(_tensor(value), root_rank, name=name))


def broadcast_variables(variables: Iterable[Any], root_rank: int) -> None:
    """The root's values into these Keras variables."""
    tensors = [variable.value for variable in variables if isinstance(variable.value, torch.Tensor)]
    functions.broadcast_parameters([(str(i), t.detach()) for i, t in enumerate(tensors)], root_rank)


def _tensor(value: Any) -> torch.Tensor:
    return value.detach() if isinstance(value, torch.Tensor) else torch.as_tensor(value)


def _like(value: Any, result: torch.Tensor) -> Any:
    return result if isinstance(value, torch.Tensor) else result.cpu().numpy()
