"""Carry out one matched collective: torch.distributed moves the bytes, this file makes them fit.

    allreduce       post × op(pre × tensor over members); Average: post / members × sum
    allgather       rows of all members, one below the other; members may bring different numbers of rows
    alltoall        rows for member j go to member j
    reducescatter   allreduce, of which member j keeps its share of the rows; the first ones keep one more

Integers are cut towards zero after pre, on every member, and once at the end; 16-bit floats are scaled in 32 bits.
Whatever only moves bytes is sent as bytes, so every data type travels. Data types that a backend cannot add
(bool, 16-bit integers) are added as 32-bit integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from paceline_horovod.common.request import Request, Response
from paceline_horovod.torch.adasum import adasum_of

__all__ = ["Members", "carry_out", "new_group", "share"]

_OPS = {
    "Average": dist.ReduceOp.SUM,
    "Sum": dist.ReduceOp.SUM,
    "Min": dist.ReduceOp.MIN,
    "Max": dist.ReduceOp.MAX,
    "Product": dist.ReduceOp.PRODUCT,
}
_ADDED_AS = {torch.bool: torch.int32, torch.int16: torch.int32}


@dataclass(frozen=True)
class Members:
    """The ranks of one process set, this one's place among them, and their torch.distributed group."""

    ranks: tuple[int, ...]
    own: int
    group: Any

    @property
    def size(self) -> int:
        return len(self.ranks)


def new_group(ranks: Sequence[int]) -> Any:
    """A torch.distributed group of these ranks, on the backend of the default group. Every rank must call it.

    A script may have begun with NCCL alone, which cannot move what lies on the CPU: then gloo is added."""
    only_nccl = dist.get_backend() == "nccl"
    return dist.new_group(list(ranks), backend="cpu:gloo,cuda:nccl" if only_nccl else None)


def carry_out(response: Response, tensors: Sequence[torch.Tensor], members: Members) -> list[torch.Tensor]:
    """The results, one per tensor. allreduce and broadcast write them into the tensors themselves."""
    request = response.request
    if request.kind == "allreduce":
        _allreduce(tensors, request, members)
        return list(tensors)
    if request.kind == "broadcast":
        for tensor in tensors:
            _broadcast(tensor, request.root_rank, members)
        return list(tensors)
    if request.kind == "allgather":
        return [
            _allgather(tensor, [rows[i] for rows in response.rows], members)
            for i, tensor in enumerate(tensors)
        ]
    if request.kind == "alltoall":
        return [_alltoall(tensors[0], response.splits, members)]
    if request.kind == "reducescatter":
        _allreduce(tensors, request, members)
        return [_share_of(tensor, members) for tensor in tensors]
    return []


def share(rows: int, size: int, index: int) -> tuple[int, int]:
    """First row and end of what member `index` keeps of `rows` rows: the first rows % size members keep one more."""
    base, extra = divmod(rows, size)
    begin = index * base + min(index, extra)
    return begin, begin + base + (index < extra)


def _allreduce(tensors: Sequence[torch.Tensor], request: Request, members: Members) -> None:
    if request.op == "Adasum":
        for tensor in tensors:
            _adasum(tensor, request, members)
        return
    kinds: dict[torch.dtype, list[torch.Tensor]] = {}
    for tensor in tensors:
        kinds.setdefault(tensor.dtype, []).append(tensor)
    for same in kinds.values():
        parts = [tensor.reshape(-1) for tensor in same]
        flat = parts[0] if len(parts) == 1 else torch.cat(parts)
        wire = _scaled(flat.to(_ADDED_AS.get(flat.dtype, flat.dtype)), request.prescale)
        if wire.numel() and members.size > 1:
            dist.all_reduce(wire, _OPS[request.op], group=members.group)
        shares = members.size if request.op == "Average" else 1
        _write_back(_scaled(wire, request.postscale, shares), same)


def _write_back(flat: torch.Tensor, tensors: Sequence[torch.Tensor]) -> None:
    begin = 0
    for tensor in tensors:
        part = flat[begin : begin + tensor.numel()]
        begin += tensor.numel()
        if part.data_ptr() != tensor.data_ptr() or part.dtype != tensor.dtype:
            tensor.copy_(part.view(tensor.shape))


def _scaled(tensor: torch.Tensor, factor: float, shares: int = 1) -> torch.Tensor:
    """The tensor × factor / shares, rounded once: cut after each, 5 × 2 / 3 in integers would be 2 instead of 3."""
    if tensor.is_floating_point() or tensor.is_complex():
        if factor == 1.0:
            return tensor if shares == 1 else tensor.div_(shares)
        return tensor.mul_(factor / shares)
    if factor == 1.0:  # doubles do not hold every 64-bit integer
        return tensor if shares == 1 else tensor.div_(shares, rounding_mode="trunc")
    return tensor.copy_(tensor.double().mul_(factor).div_(shares))


def _adasum(tensor: torch.Tensor, request: Request, members: Members) -> None:
    mine = _scaled(tensor.reshape(-1).clone(), request.prescale)
    if members.size > 1 and mine.numel():
        all_of_them = _gathered([mine.numel()] * members.size, mine, members)
        mine = adasum_of(all_of_them)
    tensor.copy_(_scaled(mine, request.postscale).view(tensor.shape))


def _broadcast(tensor: torch.Tensor, root_rank: int, members: Members) -> None:
    if members.size == 1 or not tensor.numel():
        return
    flat = tensor.reshape(-1)
    dist.broadcast(flat.view(torch.uint8), src=root_rank, group=members.group)
    _write_back(flat, [tensor])


def _allgather(tensor: torch.Tensor, rows: Sequence[int], members: Members) -> torch.Tensor:
    inner = tuple(tensor.shape[1:]) if tensor.dim() else ()
    per_row = 1
    for length in inner:
        per_row *= length
    parts = _gathered([count * per_row for count in rows], tensor.reshape(-1), members)
    return torch.cat(parts).view(sum(rows), *inner)


def _gathered(counts: Sequence[int], mine: torch.Tensor, members: Members) -> list[torch.Tensor]:
    """Every member's flat tensor; they are padded to the longest on the wire."""
    longest = max(counts)
    if members.size == 1 or not longest:
        return [mine.clone() for _ in counts]
    sent = mine.contiguous()
    if len(mine) < longest:
        sent = torch.cat([mine, mine.new_zeros(longest - len(mine))])
    received = [torch.empty_like(sent) for _ in counts]
    dist.all_gather(
        [part.view(torch.uint8) for part in received], sent.view(torch.uint8), group=members.group
    )
    return [part[:count] for part, count in zip(received, counts, strict=True)]


def _alltoall(tensor: torch.Tensor, splits: Sequence[Sequence[int]], members: Members) -> torch.Tensor:
    sends = list(splits[members.own])
    receives = [theirs[members.own] for theirs in splits]
    inner = tuple(tensor.shape[1:])
    row_bytes = tensor.element_size()
    for length in inner:
        row_bytes *= length
    result = tensor.new_empty(sum(receives), *inner)
    if row_bytes and any(any(row) for row in splits):
        dist.all_to_all_single(
            result.view(-1).view(torch.uint8),
            tensor.reshape(-1).view(torch.uint8),
            [count * row_bytes for count in receives],
            [count * row_bytes for count in sends],
            group=members.group,
        )
    return result


def _share_of(tensor: torch.Tensor, members: Members) -> torch.Tensor:
    begin, end = share(tensor.shape[0], members.size, members.own)
    return tensor[begin:end].clone()
