"""Augmentation from draws: the same draws give the same image, on any worker and any device.

draws of a sample, 0..1      columns are used by whoever names them: flip, shift down, shift right, light
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["flipped", "shifted"]


def flipped(images: Tensor, draw: Tensor) -> Tensor:
    """Every second image mirrored, left to right."""
    return torch.where((draw < 0.5).view(-1, 1, 1, 1), images.flip(3), images)


def shifted(images: Tensor, down: Tensor, right: Tensor, *, most: int) -> Tensor:
    """Each image moved by up to `most` pixels each way; what comes in is zero, as the mean pixel is."""
    height, width = images.shape[2:]
    padded = torch.nn.functional.pad(images, (most, most, most, most))
    rows = (down * (2 * most + 1)).long().view(-1, 1) + torch.arange(height, device=images.device)
    columns = (right * (2 * most + 1)).long().view(-1, 1) + torch.arange(width, device=images.device)
    every = torch.arange(len(images), device=images.device).view(-1, 1, 1)
    # advanced indices around a slice put the channels last
    return padded[every, :, rows.unsqueeze(2), columns.unsqueeze(1)].permute(0, 3, 1, 2)
