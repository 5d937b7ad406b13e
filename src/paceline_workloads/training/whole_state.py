"""What a training knows, whole: weights and optimizer as one worker alone would have them, whatever the strategy.

So a checkpoint can be continued under another strategy and on another number of workers, and read by plain torch.
Parts are gathered one tensor at a time, and only the first worker keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer
from torch.utils._pytree import tree_map

__all__ = ["restore", "whole_state"]


@torch.no_grad()
def whole_state(network: nn.Module, optimizer: Optimizer, *, keep: bool) -> dict[str, Any]:
    """Both as state dicts of plain tensors. Every worker calls this; `keep`: the one that saves."""

    def gathered(value: Any) -> Any:
        if not isinstance(value, DTensor):
            return value
        whole = value.full_tensor()
        return whole.cpu() if keep else None

    consolidate = getattr(optimizer, "consolidate_state_dict", None)  # ZeroRedundancyOptimizer's
    if consolidate is not None:
        consolidate(to=0)
        of_optimizer = optimizer.state_dict() if keep else None
    else:
        of_optimizer = tree_map(gathered, optimizer.state_dict())
    return {"network": tree_map(gathered, network.state_dict()), "optimizer": of_optimizer}


@torch.no_grad()
def restore(network: nn.Module, optimizer: Optimizer, state: Mapping[str, Any]) -> None:
    """Give every worker its part of what was saved."""
    held = network.state_dict()
    network.load_state_dict({name: _cut_as(held[name], value) for name, value in state["network"].items()})
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    saved = state["optimizer"]
    cut = {
        number: {name: _cut_as(weights[number], value) for name, value in values.items()}
        for number, values in saved["state"].items()
    }
    optimizer.load_state_dict({**saved, "state": cut})


def _cut_as(model: Any, value: Any) -> Any:
    """The part of a whole tensor that this worker has of `model`; what has another shape (a count) belongs to all."""
    if not isinstance(model, DTensor) or not isinstance(value, Tensor) or value.shape != model.shape:
        return value
    return distribute_tensor(value.to(model.device), model.device_mesh, model.placements)
