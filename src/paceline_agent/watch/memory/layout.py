"""How a network's parameters would be cut: the rows of every tensor, and the parts that lists of layers hold.

FSDP cuts every parameter by rows (its first dimension); a worker that has fewer rows keeps room for as many.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Optional


def shapes(parameters: list[Any]) -> list[list[int]]:
    """[rows, bytes of a row, 1 where it is trained, how many of them], of whole tensors; each parameter once."""
    found: Counter[tuple[int, int, int]] = Counter()
    for parameter in {id(p): p for p in parameters}.values():
        rows = int(parameter.shape[0]) if parameter.dim() else 1
        size = int(parameter.numel()) * int(parameter.element_size())
        if size:
            found[(rows, size // rows, int(parameter.requires_grad))] += 1
    return [[*shape, count] for shape, count in found.items()]


def parts(network: Any) -> Optional[list[int]]:
    """Bytes of the largest part, and of what is in none. A part is what a list of layers holds: a block. None where
    there is no such list, or no network."""
    if network is None:
        return None
    inside = [layer for held in _lists(network) for layer in held._modules.values() if layer is not None]
    sizes = [_bytes(layer) for layer in inside]
    return [max(sizes), max(0, _bytes(network) - sum(sizes))] if sizes else None


def _lists(module: Any) -> list[Any]:
    """The outermost lists of layers."""
    import torch

    kinds = (torch.nn.Sequential, torch.nn.ModuleList)
    if isinstance(module, kinds):
        return [module]
    return [held for child in module._modules.values() if child is not None for held in _lists(child)]


def _bytes(module: Any) -> int:
    return sum(int(p.numel()) * int(p.element_size()) for p in module.parameters())
