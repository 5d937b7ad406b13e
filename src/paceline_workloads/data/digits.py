"""Digits for the workloads that learn them: the published idx files, or drawn ones, and never one for the other."""

from __future__ import annotations

from pathlib import Path

from paceline_workloads.data.drawn_digits import drawn_digits
from paceline_workloads.data.examples import Data
from paceline_workloads.data.idx import idx_examples

__all__ = ["GENERATED_SCALE", "IDX_SCALE", "digits"]

IDX_SCALE = (0.1307, 0.3081)  # mean and standard deviation of MNIST's training pixels, over 255
GENERATED_SCALE = (0.45, 0.2)


def digits(folder: Path | None, *, seed: int, samples: int | None = None) -> Data:
    """The idx files of a folder (MNIST, Fashion-MNIST); without one, drawn digits. `samples`: only the first ones."""
    if folder is None:
        train, test = drawn_digits(12_000, seed=seed + 1), drawn_digits(2_000, seed=seed + 2)
        return Data(train.first(samples), test, "no --data: training on generated digits, not on MNIST", True)
    train, test = idx_examples(folder, "train").first(samples), idx_examples(folder, "t10k")
    return Data(train, test, f"{len(train):,} images from {folder}", False)
