"""Parameters, optimizer state and any Python object, from one rank to all or from all to all."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from paceline_horovod.common.process_sets import ProcessSet, global_process_set
from paceline_horovod.torch.handles import synchronize
from paceline_horovod.torch.mpi_ops import allgather, broadcast_, grouped_broadcast_async_

__all__ = ["allgather_object", "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters"]


def broadcast_parameters(
    params: Mapping[str, Any] | Iterable[tuple[str, Any]],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
) -> None:
    """The root's tensors into everybody's: model.state_dict(), or model.named_parameters()."""
    if isinstance(params, Mapping):
        pairs = sorted(params.items())
    elif isinstance(params, Iterable) and not isinstance(params, (str, torch.Tensor)):
        pairs = [pair if isinstance(pair, tuple) else (None, pair) for pair in params]
    else:
        raise ValueError(f"parameters are a state_dict or named_parameters(), not {type(params).__name__}")
    tensors = [tensor for _, tensor in pairs if isinstance(tensor, torch.Tensor)]
    for device in sorted({str(tensor.device) for tensor in tensors}):
        own = [tensor for tensor in tensors if str(tensor.device) == device]
        synchronize(grouped_broadcast_async_(own, root_rank, None, process_set))


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    model: torch.nn.Module | None = None,
    process_set: ProcessSet = global_process_set,
) -> None:
    """The root's optimizer state (moments, learning rates, counters) into everybody's.

    `model` is accepted for old scripts; nothing about it is needed, because the root says what its state holds."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError(
            "the state of torch.optim.LBFGS cannot be broadcast: its history is not per parameter"
        )
    is_root = process_set.ranks is not None and process_set.ranks[process_set.rank()] == root_rank
    tensors: list[torch.Tensor] = []
    outline = _outline(optimizer.state_dict(), tensors) if is_root else None
    outline, descriptions = broadcast_object(
        (outline, [(tuple(t.shape), t.dtype) for t in tensors]), root_rank, process_set=process_set
    )
    if not is_root:
        tensors = [torch.empty(shape, dtype=dtype) for shape, dtype in descriptions]
    if tensors:
        synchronize(grouped_broadcast_async_(tensors, root_rank, None, process_set))
    if not is_root:
        optimizer.load_state_dict(_filled(outline, tensors))


def broadcast_object(
    obj: Any = None,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The root's object, pickled; on the other ranks `obj` does not matter."""
    is_root = process_set.ranks is not None and process_set.ranks[process_set.rank()] == root_rank
    data = _pickled(obj) if is_root else torch.empty(0, dtype=torch.uint8)
    length = torch.tensor([len(data)])
    broadcast_(length, root_rank, None if name is None else f"{name}.length", process_set)
    if not is_root:
        data = torch.empty(int(length), dtype=torch.uint8)
    broadcast_(data, root_rank, None if name is None else f"{name}.data", process_set)
    return obj if is_root else pickle.loads(data.numpy().tobytes())


def allgather_object(
    obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """The objects of all ranks, in their order."""
    data = _pickled(obj)
    lengths = allgather(
        torch.tensor([len(data)]), None if name is None else f"{name}.length", process_set
    ).tolist()
    everything = allgather(data, None if name is None else f"{name}.data", process_set).numpy().tobytes()
    objects, begin = [], 0
    for length in lengths:
        objects.append(pickle.loads(everything[begin : begin + length]))
        begin += length
    return objects


class _Tensor:
    """Stands for the tensor of this number in a pickled state."""

    def __init__(self, number: int) -> None:
        self.number = number


def _outline(state: Any, tensors: list[torch.Tensor]) -> Any:
    """The same structure, its tensors taken out into the list."""
    if isinstance(state, torch.Tensor):
        tensors.append(state.detach().cpu().contiguous())
        return _Tensor(len(tensors) - 1)
    if isinstance(state, dict):
        return {key: _outline(value, tensors) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(_outline(value, tensors) for value in state)
    return state


def _filled(outline: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(outline, _Tensor):
        return tensors[outline.number]
    if isinstance(outline, dict):
        return {key: _filled(value, tensors) for key, value in outline.items()}
    if isinstance(outline, (list, tuple)):
        return type(outline)(_filled(value, tensors) for value in outline)
    return outline


def _pickled(obj: Any) -> torch.Tensor:
    buffer = io.BytesIO()
    pickle.dump(obj, buffer, protocol=pickle.HIGHEST_PROTOCOL)
    return torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)
