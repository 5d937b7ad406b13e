"""A small vision transformer: patches, positions, blocks of attention, the mean of all patches, scores."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody uses

__all__ = ["VisionTransformer"]


class Attention(nn.Module):
    """Self-attention of all patches."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.mix = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Every patch looks at every patch."""
        samples, patches, width = x.shape
        parts = self.mix(x).view(samples, patches, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(query, key, value)
        out: Tensor = self.out(seen.transpose(1, 2).reshape(samples, patches, width))
        return out


class Block(nn.Module):
    """Attention, then a linear layer out and back, each beside a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.look = nn.Sequential(nn.LayerNorm(width), Attention(width, heads))
        self.think = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Two residual steps."""
        x = x + self.look(x)
        out: Tensor = x + self.think(x)
        return out


class VisionTransformer(nn.Module):
    """For square images whose side is a multiple of 4."""

    def __init__(
        self, *, channels: int, side: int, classes: int, width: int = 64, depth: int = 4, heads: int = 4
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(channels, width, 4, stride=4)
        self.places = nn.Parameter(0.02 * torch.randn(1, (side // 4) ** 2, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.classes = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, images: Tensor) -> Tensor:
        """Scores of the classes."""
        x = self.patches(images).flatten(2).transpose(1, 2) + self.places
        scores: Tensor = self.classes(self.blocks(x).mean(1))
        return scores
