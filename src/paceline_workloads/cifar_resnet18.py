"""ResNet-18 (11,173,962 parameters) on CIFAR-10, with random shifts and flips.

    python -m paceline_workloads.cifar_resnet18 --data FOLDER
    torchrun --nproc-per-node 4 -m paceline_workloads.cifar_resnet18 --data FOLDER --lr-rule sqrt --warmup-epochs 5

`--data` names the folder of the published archive, binary or Python layout, unpacked or not. Without it the script
generates images of ten classes: they can be learned, and they are not CIFAR-10.
On a CUDA device: --precision bf16 --channels-last --cuda-graph --compile.
"""

from __future__ import annotations

import argparse
from functools import cache, partial

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the name everybody uses

from paceline_workloads.data.cifar import cifar10
from paceline_workloads.data.drawn_images import drawn_patches
from paceline_workloads.data.examples import Data
from paceline_workloads.networks.resnet import resnet18
from paceline_workloads.training.augment import moved
from paceline_workloads.training.options import Options, parser
from paceline_workloads.training.task import Task, class_sums, classification_metrics
from paceline_workloads.training.trainer import main

FLAGS = parser(
    "Train ResNet-18 on CIFAR-10.",
    batch_size=128,
    lr=0.1,
    epochs=15,
    schedule="cosine",
    warmup_epochs=1.0,
    weight_decay=5e-4,
)
FLAGS.add_argument("--samples", type=int, help="only the first so many images to learn from")
FLAGS.add_argument("--width", type=int, default=64, help="channels of the first stage; ResNet-18 has 64")
_MEAN = (0.4914, 0.4822, 0.4465)  # of CIFAR-10's training pixels, over 255
_DEVIATION = (0.2470, 0.2435, 0.2616)


def task(asked: Options, given: argparse.Namespace) -> Task:
    """Images of 3 x 32 x 32 bytes into ten classes."""
    return Task(
        name="cifar-resnet18",
        data=_data(asked, given.samples),
        network=partial(resnet18, width=given.width),
        learning=augmented,
        judging=plain,
        loss=F.cross_entropy,
        sums=class_sums,
        metrics=classification_metrics,
        draws=3,
        classes=10,
    )


def augmented(images: Tensor, labels: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
    """Moved by up to 4 pixels, every second one mirrored; normalised."""
    return _normalised(moved(images, draws, most=4)), labels


def plain(images: Tensor, labels: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
    """Normalised."""
    return _normalised(images), labels


def _normalised(images: Tensor) -> Tensor:
    """Mean 0 and deviation 1 per channel."""
    mean, scale = _constants(images.device)
    return (images - mean) * scale


@cache
def _constants(device: torch.device) -> tuple[Tensor, Tensor]:
    """On the device once: copying them there in every step would make it wait, and a capture impossible."""
    mean, deviation = (255 * torch.tensor(values).view(3, 1, 1) for values in (_MEAN, _DEVIATION))
    return mean.to(device), (1 / deviation).to(device)


def _data(asked: Options, samples: int | None) -> Data:
    if asked.data is None:
        train = drawn_patches(2_000, classes=10, height=32, width=32, seed=asked.seed + 1)
        test = drawn_patches(250, classes=10, height=32, width=32, seed=asked.seed + 2)
        origin = "no --data: training on generated images, not on CIFAR-10"
        return Data(train.first(samples), test, origin, True)
    train, test = cifar10(asked.data)
    chosen = train.first(samples)
    return Data(chosen, test, f"CIFAR-10: {len(chosen):,} images from {asked.data}", False)


if __name__ == "__main__":
    main(FLAGS, task)
