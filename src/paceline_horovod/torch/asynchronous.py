"""The calls that return at once, with a handle for poll and synchronize. A trailing _ means: in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from paceline_horovod.common.exceptions import NotAcceptedError
from paceline_horovod.common.process_sets import ProcessSet, global_process_set
from paceline_horovod.torch.engine import Pending
from paceline_horovod.torch.handles import Composed, ask, checked, synchronize
from paceline_horovod.torch.ops import Adasum, Average, Op, Sum, chosen_op

Tensors = Sequence[torch.Tensor]
Splits = torch.Tensor | Sequence[int]


def allreduce_async(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """The reduction of this tensor over all ranks."""
    result = checked(tensor).clone()
    chosen = chosen_op(op, average)
    return _allreduce([result], name, chosen, (prescale_factor, postscale_factor), process_set, _first)


def allreduce_async_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """The same, into the tensor itself."""
    chosen = chosen_op(op, average)
    scales = (prescale_factor, postscale_factor)
    return _allreduce([checked(tensor)], name, chosen, scales, process_set, lambda _: tensor)


def grouped_allreduce_async(
    tensors: Tensors,
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """The reductions of several tensors, exchanged together."""
    results = [checked(tensor).clone() for tensor in tensors]
    chosen = chosen_op(op, average)
    return _allreduce(results, name, chosen, (prescale_factor, postscale_factor), process_set, _all)


def grouped_allreduce_async_(
    tensors: Tensors,
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """The same, into the tensors themselves."""
    own = [checked(tensor) for tensor in tensors]
    chosen = chosen_op(op, average)
    scales = (prescale_factor, postscale_factor)
    return _allreduce(own, name, chosen, scales, process_set, lambda _: list(tensors))


def sparse_allreduce_async(
    tensor: torch.Tensor, name: str, op: Op, process_set: ProcessSet = global_process_set
) -> Composed:
    """The sum or average of sparse tensors: their entries are gathered, and added where they meet."""
    entries = tensor.detach().coalesce()
    indices = allgather_async(entries.indices().t().contiguous(), f"{name}.indices", process_set)
    values = allgather_async(entries.values(), f"{name}.values", process_set)

    def result() -> torch.Tensor:
        where, what = synchronize(indices), synchronize(values)
        if op == Average:
            what = what / process_set.size()
        return torch.sparse_coo_tensor(where.t(), what, tensor.shape, check_invariants=False).coalesce()

    return Composed((indices, values), result)


def allgather_async(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """The rows of all ranks, one below the other."""
    sent = [checked(tensor).clone()]
    return ask("allgather", sent, name=name, process_set=process_set, deliver=_first)


def grouped_allgather_async(
    tensors: Tensors, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """The same for several tensors, exchanged together."""
    sent = [checked(tensor).clone() for tensor in tensors]
    return ask("allgather", sent, name=name, process_set=process_set, deliver=_all)


def broadcast_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """The tensor of the rank `root_rank` (its rank among all)."""
    return _broadcast([checked(tensor).clone()], root_rank, name, process_set, _first)


def broadcast_async_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """The same, into the tensor itself."""
    return _broadcast([checked(tensor)], root_rank, name, process_set, lambda _: tensor)


def grouped_broadcast_async_(
    tensors: Tensors, root_rank: int, name: str | None, process_set: ProcessSet
) -> int:
    """Several tensors from the root, each into itself, agreed on at once."""
    own = [checked(tensor) for tensor in tensors]
    return _broadcast(own, root_rank, name, process_set, lambda _: list(tensors))


def alltoall_async(
    tensor: torch.Tensor,
    splits: Splits | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """The rows that every rank has for this one. `splits` says how many rows go to each rank; without it, equal
    shares do. With it, the result is the pair of the rows and how many of them came from each rank."""
    sent = checked(tensor).clone()
    if not sent.dim():
        raise NotAcceptedError("alltoall needs a tensor with rows, not a scalar")
    members = process_set.size()
    rows = _splits(sent.shape[0], splits, members)

    def deliver(pending: Pending) -> Any:
        if splits is None:
            return pending.results[0]
        assert pending.response is not None
        own = process_set.rank()
        device = splits.device if isinstance(splits, torch.Tensor) else torch.device("cpu")
        received = [theirs[own] for theirs in pending.response.splits]
        return pending.results[0], torch.tensor(received, dtype=torch.int32, device=device)

    return ask("alltoall", [sent], name=name, process_set=process_set, splits=rows, deliver=deliver)


def reducescatter_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: Op = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """This rank's share of the rows of the reduction; the first ranks get one more where they do not divide."""
    scales = (prescale_factor, postscale_factor)
    return _reducescatter([checked(tensor).clone()], name, op, scales, process_set, _first)


def grouped_reducescatter_async(
    tensors: Tensors,
    name: str | None = None,
    op: Op = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """The same for several tensors, exchanged together."""
    sent = [checked(tensor).clone() for tensor in tensors]
    return _reducescatter(sent, name, op, (prescale_factor, postscale_factor), process_set, _all)


def _allreduce(
    tensors: Tensors,
    name: str | None,
    op: Op,
    scales: tuple[float, float],
    process_set: ProcessSet,
    deliver: Any,
) -> int:
    if op == Adasum:
        _check_adasum(tensors, process_set)
    return ask(
        "allreduce",
        tensors,
        name=name,
        process_set=process_set,
        op=op.name,
        prescale=float(scales[0]),
        postscale=float(scales[1]),
        deliver=deliver,
    )


def _check_adasum(tensors: Tensors, process_set: ProcessSet) -> None:
    workers = process_set.size()
    if workers & (workers - 1):
        raise NotImplementedError(f"Adasum combines pairs: {workers} ranks are not a power of two")
    if not all(tensor.is_floating_point() for tensor in tensors):
        raise NotAcceptedError("Adasum combines floating-point tensors only")


def _broadcast(
    tensors: Tensors, root_rank: int, name: str | None, process_set: ProcessSet, deliver: Any
) -> int:
    if root_rank not in (process_set.ranks or ()):
        raise NotAcceptedError(f"broadcast: the root rank {root_rank} is not one of {process_set}")
    return ask(
        "broadcast", tensors, name=name, process_set=process_set, root_rank=int(root_rank), deliver=deliver
    )


def _reducescatter(
    tensors: Tensors,
    name: str | None,
    op: Op,
    scales: tuple[float, float],
    process_set: ProcessSet,
    deliver: Any,
) -> int:
    if op not in (Average, Sum):
        raise NotAcceptedError(f"reducescatter can sum or average, not {Op(op).name}")
    if not all(tensor.dim() for tensor in tensors):
        raise NotAcceptedError("reducescatter needs tensors with rows, not a scalar")
    return ask(
        "reducescatter",
        tensors,
        name=name,
        process_set=process_set,
        op=Op(op).name,
        prescale=float(scales[0]),
        postscale=float(scales[1]),
        deliver=deliver,
    )


def _splits(rows: int, splits: Splits | None, members: int) -> tuple[int, ...]:
    if splits is None:
        if rows % members:
            raise NotAcceptedError(f"alltoall: {rows} rows do not divide among {members} ranks; give splits")
        return (rows // members,) * members
    if isinstance(splits, torch.Tensor):
        if splits.is_floating_point() or splits.is_complex() or splits.dim() != 1:
            raise NotAcceptedError(f"alltoall: splits are whole numbers in one dimension, not {splits.dtype}")
        splits = splits.tolist()
    counts = tuple(int(count) for count in splits)
    if len(counts) != members or min(counts) < 0 or sum(counts) != rows:
        raise NotAcceptedError(f"alltoall: splits {counts} do not share {rows} rows among {members} ranks")
    return counts


def _first(pending: Pending) -> torch.Tensor:
    return pending.results[0]


def _all(pending: Pending) -> list[torch.Tensor]:
    return pending.results
