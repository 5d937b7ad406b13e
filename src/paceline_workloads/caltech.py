"""Image folders of any number of classes, 80% to learn from and 20% to judge: Caltech-101, Caltech-256, your own.

    python -m paceline_workloads.caltech --data FOLDER
    torchrun --nproc-per-node 4 -m paceline_workloads.caltech --data FOLDER --lr-rule sqrt --warmup-epochs 2

`--data` names a folder or zip with one folder per class. Without it the script generates twenty classes of patches.
"""

from __future__ import annotations

import argparse
from functools import partial

from torch.nn import functional as F  # noqa: N812 - the name everybody uses

from paceline_workloads.data.classes import class_folders
from paceline_workloads.data.drawn_images import drawn_patches
from paceline_workloads.data.examples import Data
from paceline_workloads.fruit import augmented, plain
from paceline_workloads.networks.classifier import classifier
from paceline_workloads.training.options import Options, parser
from paceline_workloads.training.task import Task, class_sums, classification_metrics
from paceline_workloads.training.trainer import main

FLAGS = parser(
    "Classify folders of images.",
    batch_size=32,
    optimizer="adamw",
    lr=2e-3,
    epochs=30,
    weight_decay=0.05,
    schedule="cosine",
    warmup_epochs=1.0,
)
FLAGS.add_argument("--side", type=int, default=64, help="pixels of an image's side")


def task(asked: Options, given: argparse.Namespace) -> Task:
    """Square colour images into as many classes as there are folders."""
    data, classes = _data(asked, side=given.side)
    return Task(
        name="caltech",
        data=data,
        network=partial(classifier, classes, weights=None, frozen=False),
        learning=augmented,
        judging=plain,
        loss=partial(F.cross_entropy, label_smoothing=0.1),
        sums=class_sums,
        metrics=classification_metrics,
        draws=3,
        classes=classes,
    )


def _data(asked: Options, *, side: int) -> tuple[Data, int]:
    if asked.data is None:
        train = drawn_patches(2_000, classes=20, height=side, width=side, seed=asked.seed + 1)
        test = drawn_patches(500, classes=20, height=side, width=side, seed=asked.seed + 2)
        return Data(train, test, "no --data: training on generated patches, not on Caltech", True), 20
    data, names = class_folders(asked, size=(side, side))
    return data, len(names)


if __name__ == "__main__":
    main(FLAGS, task)
