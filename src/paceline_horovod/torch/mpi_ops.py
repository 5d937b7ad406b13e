"""The calls that wait for their result. Those that return tensors let gradients through (torch.autograd)."""

from __future__ import annotations

from typing import Any

import torch

from paceline_horovod.common.exceptions import HorovodInternalError
from paceline_horovod.common.process_sets import ProcessSet, global_process_set
from paceline_horovod.common.request import Request
from paceline_horovod.torch import built
from paceline_horovod.torch.asynchronous import (
    Splits,
    Tensors,
    allgather_async,
    allreduce_async,
    allreduce_async_,
    alltoall_async,
    broadcast_async,
    broadcast_async_,
    grouped_allgather_async,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_broadcast_async_,
    grouped_reducescatter_async,
    reducescatter_async,
    sparse_allreduce_async,
)
from paceline_horovod.torch.autograd import dealt, gathered, reduced, scattered, sent_out
from paceline_horovod.torch.built import *  # noqa: F403 - where Horovod has them too
from paceline_horovod.torch.compression import Compression, Compressor
from paceline_horovod.torch.handles import ask, poll, synchronize
from paceline_horovod.torch.ops import Adasum, Average, Max, Min, Op, Product, Sum, chosen_op
from paceline_horovod.torch.world import (
    add_process_set,
    cross_rank,
    cross_size,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    rank,
    remove_process_set,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
    world,
)

__all__ = [
    "Adasum",
    "Average",
    "HorovodInternalError",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Sum",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "cross_rank",
    "cross_size",
    "global_process_set",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_broadcast_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "poll",
    "rank",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "shutdown",
    "size",
    "sparse_allreduce_async",
    "start_timeline",
    "stop_timeline",
    "synchronize",
]
__all__ += built.__all__


def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """The reduction of this tensor over all ranks: their average, unless `op` says otherwise."""
    settings = (chosen_op(op, average), prescale_factor, postscale_factor, process_set)
    sent, context = compression.compress(tensor)
    return compression.decompress(reduced(name, settings, sent)[0], context)


def allreduce_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """The same, into the tensor itself; no gradients."""
    chosen = chosen_op(op, average)
    result: torch.Tensor = synchronize(
        allreduce_async_(tensor, None, name, chosen, prescale_factor, postscale_factor, process_set)
    )
    return result


def grouped_allreduce(
    tensors: Tensors,
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """The reductions of several tensors, exchanged together."""
    settings = (chosen_op(op, average), prescale_factor, postscale_factor, process_set)
    sent = [compression.compress(tensor) for tensor in tensors]
    results = reduced(name, settings, *(tensor for tensor, _ in sent))
    return [
        compression.decompress(result, context) for result, (_, context) in zip(results, sent, strict=True)
    ]


def grouped_allreduce_(
    tensors: Tensors,
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """The same, into the tensors themselves; no gradients."""
    chosen = chosen_op(op, average)
    results: list[torch.Tensor] = synchronize(
        grouped_allreduce_async_(tensors, None, name, chosen, prescale_factor, postscale_factor, process_set)
    )
    return results


def allgather(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """The rows of all ranks, one below the other. The ranks may have different numbers of rows."""
    result: torch.Tensor = gathered(name, process_set, tensor)[0]
    return result


def grouped_allgather(
    tensors: Tensors, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[torch.Tensor]:
    """The same for several tensors, exchanged together."""
    return list(gathered(name, process_set, *tensors))


def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """The tensor of the rank `root_rank` (its rank among all)."""
    result: torch.Tensor = sent_out(tensor, root_rank, name, process_set)
    return result


def broadcast_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """The same, into the tensor itself; no gradients."""
    result: torch.Tensor = synchronize(broadcast_async_(tensor, root_rank, name, process_set))
    return result


def alltoall(
    tensor: torch.Tensor,
    splits: Splits | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The rows that every rank has for this one; with `splits`, also how many came from each rank."""
    rows, received = dealt(tensor, splits, name, process_set)
    return rows if splits is None else (rows, received)


def reducescatter(
    tensor: torch.Tensor,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: Op = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """This rank's share of the rows of the reduction; the first ranks get one more where they do not divide."""
    sent, context = compression.compress(tensor)
    settings = (op, prescale_factor, postscale_factor, process_set)
    return compression.decompress(scattered(name, settings, sent)[0], context)


def grouped_reducescatter(
    tensors: Tensors,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: Op = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[torch.Tensor]:
    """The same for several tensors, exchanged together."""
    sent = [compression.compress(tensor) for tensor in tensors]
    settings = (op, prescale_factor, postscale_factor, process_set)
    results = scattered(name, settings, *(tensor for tensor, _ in sent))
    return [
        compression.decompress(result, context) for result, (_, context) in zip(results, sent, strict=True)
    ]


def join(device: int = -1) -> int:
    """This rank has no more data: until the others are done too, it takes part in their sums with zeros.

    The rank that joined last. `device` is the GPU for the zeros; by default the current one."""
    here = world()
    if device >= 0 or torch.cuda.is_available():
        here.engine.joined_device = device if device >= 0 else torch.cuda.current_device()
    answer = here.engine.submit(Request("join", "join"), ()).wait()
    here.unnamed[0] = 0  # the ranks made different numbers of calls: count together again
    return answer.last_joined


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Wait until every rank has come here."""
    synchronize(ask("barrier", (), name=None, process_set=process_set, deliver=lambda _: None))
