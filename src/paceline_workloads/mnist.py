"""A small convolutional network on handwritten digits: an ordinary data-parallel training script.

    python -m paceline_workloads.mnist                                      one process
    torchrun --nproc-per-node 2 -m paceline_workloads.mnist --epochs 3      two workers

Without data it draws its own digits: the strokes of the ten figures, shifted, scaled and with noise, the same
for the same seed. They can be learned, and they are not MNIST. `--data FOLDER` (or PACELINE_DATA) reads the four
published idx files instead, plain or gzipped; those of Fashion-MNIST have the same names and form.
"""

from __future__ import annotations

import argparse

from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the name everybody uses

from paceline_workloads.data.digits import GENERATED_SCALE, IDX_SCALE, digits
from paceline_workloads.networks.convolutional import DigitNetwork
from paceline_workloads.training.options import Options, parser
from paceline_workloads.training.task import Task, class_sums, classification_metrics
from paceline_workloads.training.trainer import main

FLAGS = parser("Train a small network on handwritten digits.", batch_size=64, lr=0.05, epochs=3)
FLAGS.add_argument("--samples", type=int, help="only the first so many images to learn from")


def task(asked: Options, given: argparse.Namespace) -> Task:
    """Images of 28 x 28 bytes into ten classes."""
    data = digits(asked.data, seed=asked.seed, samples=given.samples)
    mean, deviation = GENERATED_SCALE if data.generated else IDX_SCALE

    def normalised(images: Tensor, labels: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
        return images.float().div_(255).sub_(mean).div_(deviation), labels

    return Task(
        name="mnist",
        data=data,
        network=DigitNetwork,
        learning=normalised,
        judging=normalised,
        loss=F.cross_entropy,
        sums=class_sums,
        metrics=classification_metrics,
        classes=10,
    )


if __name__ == "__main__":
    main(FLAGS, task)
