"""Convolutional networks without batch normalisation: digits, steering angles from a road, noise in an image."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["Denoiser", "DigitNetwork", "PilotNetwork"]


class DigitNetwork(nn.Module):
    """Two convolutions and two linear layers for images of 28 x 28: 421,642 parameters."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.classes = nn.Sequential(
            nn.Flatten(), nn.Linear(64 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, classes)
        )

    def forward(self, images: Tensor) -> Tensor:
        """Scores of the classes."""
        scores: Tensor = self.classes(self.features(images))
        return scores


class PilotNetwork(nn.Module):
    """Five convolutions and four linear layers from an image of 66 x 200 to one angle (after Bojarski et al. 2016):
    252,219 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 24, 5, stride=2), nn.ReLU(),
            nn.Conv2d(24, 36, 5, stride=2), nn.ReLU(),
            nn.Conv2d(36, 48, 5, stride=2), nn.ReLU(),
            nn.Conv2d(48, 64, 3), nn.ReLU(),
            nn.Conv2d(64, 64, 3), nn.ReLU(),
            nn.Flatten(), nn.Dropout(0.5),
            nn.Linear(64 * 18, 100), nn.ReLU(), nn.Linear(100, 50), nn.ReLU(),
            nn.Linear(50, 10), nn.ReLU(), nn.Linear(10, 1),
        )  # fmt: skip

    def forward(self, images: Tensor) -> Tensor:
        """The angle of each image."""
        angles: Tensor = self.layers(images).squeeze(1)
        return angles


class Denoiser(nn.Module):
    """`depth` convolutions of `width` channels that learn the noise; what remains is the image."""

    def __init__(self, *, depth: int, width: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(1, width, 3, padding=1), nn.ReLU()]
        for _ in range(depth - 2):
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
        last = nn.Conv2d(width, 1, 3, padding=1)
        torch.nn.init.zeros_(
            last.weight
        )  # begins as "there is no noise": the first loss is that of doing nothing
        self.layers = nn.Sequential(*layers, last)

    def forward(self, noisy: Tensor) -> Tensor:
        """The images without what is believed to be noise."""
        clean: Tensor = noisy - self.layers(noisy)
        return clean
