"""Fresh or rotten, apple, banana or orange: six classes of images, with augmentation and fine-tuning.

    python -m paceline_workloads.fruit --data FOLDER
    python -m paceline_workloads.fruit --data FOLDER --weights CHECKPOINT --freeze-trunk     only the head learns

`--data` names a folder or zip with one folder per class. Published sets hold rotated and flipped copies of the same
picture on both sides of their split; here all copies of a picture are on one side. Without data the script
generates six classes of striped patches.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the name everybody uses

from paceline_workloads.data.classes import class_folders
from paceline_workloads.data.drawn_images import drawn_patches
from paceline_workloads.data.examples import Data
from paceline_workloads.networks.classifier import classifier
from paceline_workloads.training.augment import moved
from paceline_workloads.training.options import Options, parser
from paceline_workloads.training.task import Task, class_sums, classification_metrics
from paceline_workloads.training.trainer import main

FLAGS = parser(
    "Tell fresh from rotten fruit.",
    batch_size=32,
    optimizer="adamw",
    lr=2e-3,
    epochs=6,
    weight_decay=0.01,
    schedule="cosine",
    warmup_epochs=0.5,
)
FLAGS.add_argument("--weights", type=Path, help="a checkpoint whose trunk is used")
FLAGS.add_argument("--freeze-trunk", action="store_true", help="only the last layer learns")
FLAGS.add_argument("--side", type=int, default=64, help="pixels of an image's side")


def task(asked: Options, given: argparse.Namespace) -> Task:
    """Square colour images into as many classes as there are folders; six without data."""
    data, classes = _data(asked, side=given.side)
    network = partial(classifier, classes, weights=given.weights, frozen=given.freeze_trunk)
    network()  # weights that do not fit are refused here, before any worker starts
    return Task(
        name="fruit",
        data=data,
        network=network,
        learning=augmented,
        judging=plain,
        loss=partial(F.cross_entropy, label_smoothing=0.05),
        sums=class_sums,
        metrics=classification_metrics,
        draws=3,
        classes=classes,
    )


def plain(images: Tensor, labels: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
    """−2 to 2."""
    return images.float() / 63.75 - 2.0, labels


def augmented(images: Tensor, labels: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
    """Moved by up to an eighth, every second one mirrored."""
    return plain(moved(images, draws, most=images.shape[3] // 8), labels, draws)


def _data(asked: Options, *, side: int) -> tuple[Data, int]:
    if asked.data is None:
        train = drawn_patches(1_500, classes=6, height=side, width=side, seed=asked.seed + 1)
        test = drawn_patches(300, classes=6, height=side, width=side, seed=asked.seed + 2)
        return Data(train, test, "no --data: training on generated patches, not on fruit", True), 6
    data, names = class_folders(asked, size=(side, side))
    return data, len(names)


if __name__ == "__main__":
    main(FLAGS, task)
