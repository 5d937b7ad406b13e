"""Adasum, by its published definition (Maleki et al., MLSys 2021), over a binary tree of ranks.

    adasum(a, b) = (1 − a·b / 2|a|²) a + (1 − a·b / 2|b|²) b

Orthogonal gradients add up, parallel ones average; a zero gradient leaves the other as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

__all__ = ["adasum", "adasum_of"]


def adasum(one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
    """Two gradients combined. The products are summed in double precision."""
    a, b = one.double(), two.double()
    product = torch.dot(a, b)
    a_squared, b_squared = torch.dot(a, a), torch.dot(b, b)
    half = product.new_tensor(0.5)
    a_less = torch.where(a_squared > 0, half * product / a_squared.clamp_min(1e-300), 0.0)
    b_less = torch.where(b_squared > 0, half * product / b_squared.clamp_min(1e-300), 0.0)
    return ((1 - a_less) * a + (1 - b_less) * b).to(one.dtype)


def adasum_of(gradients: Sequence[torch.Tensor]) -> torch.Tensor:
    """All gradients combined, neighbours first: a tree whose leaves are the ranks in order."""
    level = list(gradients)
    while len(level) > 1:
        level = [adasum(level[i], level[i + 1]) for i in range(0, len(level), 2)]
    return level[0]
