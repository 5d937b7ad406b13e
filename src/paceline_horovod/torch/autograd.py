"""Gradients through collectives.

    y = allreduce(x, op)        dx = allreduce(dy, op), with the same scales
    y = allgather(x)            dx = this rank's rows of the average of all dy
    y = broadcast(x, root)      dx = the average of all dy on the root, zero elsewhere
    y = alltoall(x, splits)     dx = alltoall(dy, splits received)
    y = reducescatter(x, op)    dx = allgather(dy), times the number of ranks for a sum

The averages are Horovod's convention since 0.21.3: what is differentiated is the mean of the losses of all ranks.
"""

from __future__ import annotations

from typing import Any

import torch

from paceline_horovod.torch import asynchronous
from paceline_horovod.torch.handles import synchronize
from paceline_horovod.torch.ops import Average, Sum

__all__ = ["dealt", "gathered", "reduced", "scattered", "sent_out"]


class Allreduce(torch.autograd.Function):
    """Several tensors, reduced together."""

    @staticmethod
    def forward(ctx: Any, name: Any, settings: Any, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.settings = settings
        op, prescale, postscale, process_set = settings
        return tuple(
            synchronize(
                asynchronous.grouped_allreduce_async(
                    tensors,
                    name=name,
                    op=op,
                    prescale_factor=prescale,
                    postscale_factor=postscale,
                    process_set=process_set,
                )
            )
        )

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return (None, None, *reduced(None, ctx.settings, *gradients))


class Allgather(torch.autograd.Function):
    """Several tensors, gathered together."""

    @staticmethod
    def forward(ctx: Any, name: Any, process_set: Any, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.process_set = process_set
        ctx.shapes = [tensor.shape for tensor in tensors]
        handle = asynchronous.grouped_allgather_async(tensors, name, process_set)
        return tuple(synchronize(handle))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        process_set = ctx.process_set
        rows = torch.tensor([[shape[0] if shape else 1 for shape in ctx.shapes]])
        counts = synchronize(asynchronous.allgather_async(rows, None, process_set))
        averages = synchronize(
            asynchronous.grouped_allreduce_async(gradients, op=Average, process_set=process_set)
        )
        own = process_set.rank()
        parts = []
        for i, average in enumerate(averages):
            begin = int(counts[:own, i].sum())
            parts.append(average[begin : begin + int(counts[own, i])].reshape(ctx.shapes[i]))
        return (None, None, *parts)


class Broadcast(torch.autograd.Function):
    """One tensor from the root."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, root_rank: int, name: Any, process_set: Any) -> Any:
        ctx.root_rank, ctx.process_set = root_rank, process_set
        return synchronize(asynchronous.broadcast_async(tensor, root_rank, name, process_set))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        process_set = ctx.process_set
        average = synchronize(asynchronous.allreduce_async(gradients[0], op=Average, process_set=process_set))
        on_root = process_set.ranks[process_set.rank()] == ctx.root_rank
        return average if on_root else torch.zeros_like(average), None, None, None


class Alltoall(torch.autograd.Function):
    """One tensor, its rows dealt out to all ranks."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, splits: Any, name: Any, process_set: Any) -> Any:
        ctx.process_set = process_set
        if splits is None:
            splits = [tensor.shape[0] // process_set.size()] * process_set.size() if tensor.dim() else None
            if splits is not None and sum(splits) != tensor.shape[0]:
                splits = None  # alltoall_async says what is wrong
        rows, received = synchronize(asynchronous.alltoall_async(tensor, splits, name, process_set))
        ctx.received = received
        ctx.mark_non_differentiable(received)
        return rows, received

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        rows, _ = synchronize(asynchronous.alltoall_async(gradients[0], ctx.received, None, ctx.process_set))
        return rows, None, None, None


class Reducescatter(torch.autograd.Function):
    """Several tensors, reduced together, of which every rank keeps its rows."""

    @staticmethod
    def forward(ctx: Any, name: Any, settings: Any, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.settings = settings
        op, prescale, postscale, process_set = settings
        handle = asynchronous.grouped_reducescatter_async(tensors, name, op, process_set, prescale, postscale)
        return tuple(synchronize(handle))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        op, prescale, postscale, process_set = ctx.settings
        factor = prescale * postscale * (process_set.size() if op == Sum else 1)
        gathered = synchronize(asynchronous.grouped_allgather_async(gradients, None, process_set))
        return (None, None, *(part * factor if factor != 1 else part for part in gathered))


reduced: Any = Allreduce.apply
gathered: Any = Allgather.apply
sent_out: Any = Broadcast.apply
dealt: Any = Alltoall.apply
scattered: Any = Reducescatter.apply
