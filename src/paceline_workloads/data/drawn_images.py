"""Generated images for machines without data: striped patches of classes, textures, roads. Learnable."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the name everybody uses

from paceline_workloads.data.examples import Examples

__all__ = ["drawn_patches", "drawn_roads", "drawn_textures"]


def drawn_patches(count: int, *, classes: int, height: int, width: int, seed: int) -> Examples:
    """Stripes in a round patch. The class fixes their direction, spacing and colour; place, phase and noise vary."""
    chance = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (count,), generator=chance)
    kind = torch.arange(classes)
    angle = math.pi * kind / classes
    spacing = 2.0 + 2.0 * (kind % 3)
    colour = 0.5 + 0.5 * torch.cos(
        2 * math.pi * (kind / classes).unsqueeze(1) + torch.tensor([0.0, 2.1, 4.2])
    )
    y, x = torch.meshgrid(torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij")
    place = 0.8 * (torch.rand(count, 2, 1, 1, generator=chance) - 0.5)
    turn = (angle[labels] + 0.15 * torch.randn(count, generator=chance)).view(-1, 1, 1)
    phase = 2 * math.pi * torch.rand(count, 1, 1, generator=chance)
    across = x * turn.cos() + y * turn.sin()
    stripes = 0.5 + 0.5 * torch.sin(2 * math.pi * spacing[labels].view(-1, 1, 1) * across + phase)
    patch = torch.exp(-3.0 * ((x - place[:, 0]) ** 2 + (y - place[:, 1]) ** 2))
    images = (stripes * patch).unsqueeze(1) * colour[labels].view(-1, 3, 1, 1)
    images = 0.25 + 0.6 * images + 0.12 * torch.randn(images.shape, generator=chance)
    return Examples(_bytes(images), labels)


def drawn_textures(count: int, *, side: int, seed: int) -> Examples:
    """Grey images of smooth shades and sharp edges; each is its own target."""
    chance = torch.Generator().manual_seed(seed)
    coarse = torch.randn(count, 2, 6, 6, generator=chance)
    smooth = F.interpolate(coarse, size=(side, side), mode="bicubic", align_corners=False)
    shade, edge = smooth[:, :1], smooth[:, 1:]
    images = _bytes(0.5 + 0.12 * shade + 0.25 * edge.sign())
    return Examples(images, images)


def drawn_roads(count: int, *, seed: int) -> Examples:
    """A road of 66 x 200 pixels that bends, seen from a car beside its middle; the target is the angle to steer.

    angle = 0.5 · bend − 0.3 · place, both in −1..1: into the bend, and back to the middle."""
    chance = torch.Generator().manual_seed(seed)
    bend, place = (2 * torch.rand(count, 1, 1, generator=chance) - 1 for _ in range(2))
    down = torch.linspace(0, 1, 66).view(1, -1, 1)  # 0 at the horizon, 1 before the car
    x = torch.linspace(-1, 1, 200).view(1, 1, -1)
    middle = 0.6 * bend * (1 - down) ** 2 - 0.5 * place * down
    half = 0.08 + 0.5 * down
    off = (x - middle).abs()
    road, line = (off < half).float(), ((off - half).abs() < 0.02 + 0.03 * down).float()
    grass = torch.tensor([0.2, 0.5, 0.2]).view(1, 3, 1, 1)
    images = grass + road.unsqueeze(1) * (0.4 - grass) + line.unsqueeze(1) * 0.5
    light = 0.7 + 0.6 * torch.rand(count, 1, 1, 1, generator=chance)
    images = images * light + 0.06 * torch.randn(images.shape, generator=chance)
    return Examples(_bytes(images), (0.5 * bend - 0.3 * place).flatten())


def _bytes(images: Tensor) -> Tensor:
    return (images * 255).round().clamp(0, 255).byte()
