"""Residual networks for small images (He et al. 2016, the CIFAR stem: one 3 x 3 convolution, no pooling).

resnet18    widths 64, 128, 256, 512, two blocks each: 11,173,962 parameters with 10 classes
a trunk and a head, so that the trunk can come from a file and stay as it is (fine-tuning)
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody uses

__all__ = ["ResNet", "resnet18"]


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inside: int, outside: int, *, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outside)
        self.shortcut = nn.Sequential()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride=stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both ways."""
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        out: Tensor = F.relu(self.norm2(self.conv2(y)).add_(self.shortcut(x)), inplace=True)
        return out


class ResNet(nn.Module):
    """Stages of blocks, each but the first halving the image; then the mean, then one linear layer."""

    def __init__(
        self, widths: Sequence[int], *, blocks: int, classes: int, stem_stride: int = 1, frozen: bool = False
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(3, widths[0], 3, stride=stem_stride, padding=1, bias=False),
            nn.BatchNorm2d(widths[0]),
            nn.ReLU(inplace=True),
        ]
        inside = widths[0]
        for stage, width in enumerate(widths):
            for block in range(blocks):
                layers.append(Block(inside, width, stride=2 if stage and not block else 1))
                inside = width
        self.trunk = nn.Sequential(*layers)
        self.head = nn.Linear(inside, classes)
        self.frozen = frozen
        if frozen:
            self.trunk.requires_grad_(False)

    def train(self, mode: bool = True) -> ResNet:
        """A frozen trunk stays as it is, its running statistics too."""
        super().train(mode)
        if self.frozen:
            self.trunk.eval()
        return self

    def forward(self, images: Tensor) -> Tensor:
        """Scores of the classes."""
        scores: Tensor = self.head(self.trunk(images).mean((2, 3)))
        return scores


def resnet18(classes: int = 10, *, width: int = 64) -> ResNet:
    """ResNet-18 for images of 32 x 32; with fewer channels than 64 in its first stage a narrow one."""
    return ResNet((width, 2 * width, 4 * width, 8 * width), blocks=2, classes=classes)
