"""One part of the data (to learn from, or to be judged by), and what the trainer needs of it.

A batch is (inputs, targets, draws): the raw bytes or numbers, and for every sample a row of numbers in 0..1 that
augmentation takes its chances from. Draws belong to (seed, epoch, sample), not to a worker or a step: a sample is
augmented alike whichever worker has it, so N workers still equal one, and a resumed training one never stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.utils.data import Dataset

__all__ = ["Batch", "Data", "Examples", "Part", "WithDraws"]

Batch = tuple[Tensor, Tensor, Tensor]


class Part(Protocol):
    """Samples by number, all in memory or decoded when asked for."""

    def __len__(self) -> int: ...

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and targets of these samples."""


@dataclass(frozen=True, slots=True)
class Examples:
    """Samples in memory, of this process or of its device."""

    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.targets)

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and targets of these samples: one gather each."""
        there = indices.to(self.inputs.device, non_blocking=True)
        return self.inputs[there], self.targets[there]

    def to(self, device: torch.device) -> Examples:
        """The same on a device."""
        return Examples(self.inputs.to(device), self.targets.to(device))

    def first(self, count: int | None) -> Examples:
        """The first so many of them; all for None."""
        return Examples(self.inputs[:count], self.targets[:count])


@dataclass(frozen=True, slots=True)
class Data:
    """What is learned from, what judges, and where both come from: said aloud, above all when they are generated."""

    train: Part
    test: Part
    origin: str
    generated: bool
    held_out: Part | None = None  # looked at once, after the last epoch: nothing is chosen by it


class WithDraws(Dataset[Batch]):
    """A part of the data with the draws of an epoch; hands out whole batches."""

    def __init__(self, part: Part, *, draws: int, seed: int, device: torch.device) -> None:
        self._part, self._count, self._seed, self._device = part, draws, seed, device
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        """New draws for every sample."""
        chance = torch.Generator().manual_seed(self._seed * 1_000_003 + epoch)
        self._draws = torch.rand(len(self._part), self._count, generator=chance).to(self._device)

    def __len__(self) -> int:
        return len(self._part)

    def __getitem__(self, index: int) -> Batch:
        return self.__getitems__([index])

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        chosen = torch.as_tensor(indices)
        inputs, targets = self._part.batch(chosen)
        return inputs, targets, self._draws[chosen.to(self._device, non_blocking=True)]
