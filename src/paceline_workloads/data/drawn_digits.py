"""Seven-segment figures of varying place, size, slant, brightness and noise: they can be learned, and are not MNIST."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the name everybody uses

from paceline_workloads.data.examples import Examples

__all__ = ["drawn_digits"]

# the seven segments of a figure as (row, column, height, width) on a 20 x 12 grid, and who lights which
SEGMENTS = (
    (0, 1, 2, 10),
    (1, 0, 9, 2),
    (1, 10, 9, 2),
    (9, 1, 2, 10),
    (10, 0, 9, 2),
    (10, 10, 9, 2),
    (18, 1, 2, 10),
)
FIGURES = ("012456", "25", "02346", "02356", "1235", "01356", "013456", "025", "0123456", "012356")


def drawn_digits(count: int, *, seed: int) -> Examples:
    """So many digits as bytes [n, 1, 28, 28]; the same for the same seed."""
    chance = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (count,), generator=chance)
    # an affine map per image: scale 0.8 to 1.25, slant, shift; grid_sample draws all images at once
    scale = 1.1 + 0.5 * torch.rand(count, 2, generator=chance)
    slant = 0.3 * (torch.rand(count, generator=chance) - 0.5)
    shift = 0.5 * (torch.rand(count, 2, generator=chance) - 0.5)
    maps = torch.zeros(count, 2, 3)
    maps[:, 0, 0], maps[:, 0, 1], maps[:, 0, 2] = 1.5 * scale[:, 0], slant, shift[:, 0]
    maps[:, 1, 1], maps[:, 1, 2] = scale[:, 1], shift[:, 1]
    grid = F.affine_grid(maps, [count, 1, 28, 28], align_corners=False)
    images = F.grid_sample(_figures()[labels], grid, align_corners=False)
    images = images * (0.6 + 0.4 * torch.rand(count, 1, 1, 1, generator=chance))
    images += 0.4 * torch.randn(images.shape, generator=chance)
    return Examples(((images + 1.0) * 100).clamp(0, 255).byte(), labels)


def _figures() -> Tensor:
    figures = torch.zeros(10, 1, 20, 12)
    for digit, segments in enumerate(FIGURES):
        for row, column, height, width in (SEGMENTS[int(segment)] for segment in segments):
            figures[digit, 0, row : row + height, column : column + width] = 1.0
    return figures
