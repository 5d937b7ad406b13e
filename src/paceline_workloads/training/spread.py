"""How one network is spread over workers, and which of its parts are computed twice to save memory.

             weights              gradients            optimizer           a worker waits for
    ddp      whole                whole, all-reduced   whole               gradients
    zero1    whole                whole, all-reduced   1/N, then sent      gradients, then others' weights
    fsdp     1/N, gathered part by part when needed    1/N                 weights of each part, gradients
    hsdp     as fsdp inside a group of workers, as ddp between groups: the groups are nodes, or halves of one node

Alone there is nothing to spread. N workers take the same steps as one under each of them: the precision of computing
(autocast) is chosen apart from it. A part is what a list of layers holds: a block of a transformer, a convolution.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

__all__ = ["SHARDED", "STRATEGIES", "Spread", "kept_here", "recomputing", "sharded", "wrapped"]

STRATEGIES = ("ddp", "zero1", "fsdp", "hsdp")
SHARDED = ("fsdp", "hsdp")  # of these a worker holds a part of the weights
Spread = DistributedDataParallel | FSDPModule

# torch has renamed this flag; where the new name exists the old one warns
_BUFFERS = "forward_sync_buffers", "broadcast_buffers"
_KNOWN = inspect.signature(DistributedDataParallel.__init__).parameters
_OWN_BUFFERS: dict[str, Any] = {next(name for name in _BUFFERS if name in _KNOWN): False}


def wrapped(network: nn.Module) -> DistributedDataParallel:
    """The whole network on every worker. Running statistics do not matter while learning; they are made equal before
    anybody looks at them."""
    return DistributedDataParallel(network, gradient_as_bucket_view=True, **_OWN_BUFFERS)


def sharded(network: nn.Module, strategy: str, device: torch.device) -> FSDPModule:
    """The network with every worker's share of it; it stays the same module."""
    mesh = _mesh(strategy, device)
    for part in _parts(network):
        fully_shard(part, mesh=mesh)
    return fully_shard(network, mesh=mesh)


def kept_here(spread: Spread | None) -> AbstractContextManager[None]:
    """While a backward is not the last of its step: its gradients are added up here, and sent with the last."""
    if isinstance(spread, DistributedDataParallel):
        return spread.no_sync()
    return nullcontext() if spread is None else _unsent(spread)


def recomputing(network: nn.Module) -> None:
    """Let activations inside of blocks be computed again in backward. Where layers are no blocks but single, √n of
    them at a time: what is kept then grows with √n, not n."""
    for held in _lists(network):
        layers = list(held.children())
        if isinstance(held, nn.Sequential) and not any(_is_block(layer) for layer in layers):
            held.forward = partial(_in_turn, layers, math.isqrt(len(layers) - 1) + 1)  # type: ignore[method-assign]
        else:
            for block in filter(_is_block, layers):
                block.forward = partial(_twice, block.forward, [block])


def _mesh(strategy: str, device: torch.device) -> DeviceMesh:
    workers, here = dist.get_world_size(), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if strategy == "fsdp":
        return init_device_mesh(device.type, (workers,))
    groups = workers // here if here < workers and workers % here == 0 else 2
    return init_device_mesh(device.type, (groups, workers // groups), mesh_dim_names=("replicate", "shard"))


def _lists(module: nn.Module) -> Iterator[nn.Module]:
    """The outermost lists of layers."""
    for child in (module,) if isinstance(module, nn.Sequential | nn.ModuleList) else module.children():
        if isinstance(child, nn.Sequential | nn.ModuleList):
            yield child
        else:
            yield from _lists(child)


def _parts(network: nn.Module) -> Iterator[nn.Module]:
    """Whatever a list of layers holds and has something to learn."""
    for held in _lists(network):
        yield from (layer for layer in held.children() if next(layer.parameters(), None) is not None)


def _is_block(module: nn.Module) -> bool:
    return next(module.children(), None) is not None


@contextmanager
def _unsent(network: FSDPModule) -> Iterator[None]:
    network.set_requires_gradient_sync(False)
    try:
        yield
    finally:
        network.set_requires_gradient_sync(True)


def _in_turn(layers: list[nn.Module], size: int, x: Tensor) -> Tensor:
    for first in range(0, len(layers), size):
        some = layers[first : first + size]
        x = _twice(partial(_through, some), some, x)
    return x


def _through(layers: list[nn.Module], x: Tensor) -> Tensor:
    for layer in layers:
        x = layer(x)
    return x


def _twice(forward: Callable[..., Any], layers: list[nn.Module], *given: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*given)
    again = partial(_statistics_kept, layers)
    return checkpoint(forward, *given, use_reentrant=False, context_fn=lambda: (nullcontext(), again()))


@contextmanager
def _statistics_kept(layers: list[nn.Module]) -> Iterator[None]:
    """Computed again, a batch must not count twice in running statistics."""
    norms = [m for layer in layers for m in layer.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    before = [
        (m.momentum, None if m.num_batches_tracked is None else m.num_batches_tracked.clone()) for m in norms
    ]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, (momentum, batches) in zip(norms, before, strict=True):
            norm.momentum = momentum
            if batches is not None and norm.num_batches_tracked is not None:
                norm.num_batches_tracked.copy_(batches)
