"""A small vision transformer on images of 28 or 32 pixels: MNIST's idx files, CIFAR-10, or generated digits.

python -m paceline_workloads.vit
torchrun --nproc-per-node 2 -m paceline_workloads.vit --data FOLDER
"""

from __future__ import annotations

import argparse
from functools import partial

from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the name everybody uses

from paceline_workloads.data.cifar import cifar10, has_cifar10
from paceline_workloads.data.digits import digits
from paceline_workloads.data.examples import Data
from paceline_workloads.networks.vision_transformer import VisionTransformer
from paceline_workloads.training.options import Options, parser
from paceline_workloads.training.task import Task, class_sums, classification_metrics
from paceline_workloads.training.trainer import main

FLAGS = parser(
    "Train a small vision transformer.",
    batch_size=64,
    optimizer="adamw",
    lr=1e-3,
    epochs=5,
    weight_decay=0.05,
    schedule="cosine",
    warmup_epochs=1.0,
)
FLAGS.add_argument("--width", type=int, default=64, help="numbers per patch")
FLAGS.add_argument("--depth", type=int, default=4, help="blocks")
FLAGS.add_argument("--samples", type=int, help="only the first so many images to learn from")


def task(asked: Options, given: argparse.Namespace) -> Task:
    """Square images of bytes into ten classes."""
    colour = asked.data is not None and has_cifar10(asked.data)
    network = partial(
        VisionTransformer,
        channels=3 if colour else 1,
        side=32 if colour else 28,
        classes=10,
        width=given.width,
        depth=given.depth,
    )
    return Task(
        name="vit",
        data=_data(asked, given.samples),
        network=network,
        learning=scaled,
        judging=scaled,
        loss=F.cross_entropy,
        sums=class_sums,
        metrics=classification_metrics,
        classes=10,
    )


def scaled(images: Tensor, labels: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
    """−1 to 1."""
    return images.float() / 127.5 - 1.0, labels


def _data(asked: Options, samples: int | None) -> Data:
    if asked.data is not None and has_cifar10(asked.data):
        train, test = cifar10(asked.data)
        chosen = train.first(samples)
        return Data(chosen, test, f"CIFAR-10: {len(chosen):,} images from {asked.data}", False)
    return digits(asked.data, seed=asked.seed, samples=samples)


if __name__ == "__main__":
    main(FLAGS, task)
