"""A sampler that remembers what has been processed, so that a restart with other workers repeats nothing."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sized
from typing import Any

from torch.utils.data import Sampler

from paceline_horovod.torch import world

__all__ = ["ElasticSampler"]


class ElasticSampler(Sampler[int]):
    """Deals the samples not yet processed in this epoch out to the ranks; padded so that all get equally many."""

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_indices: set[int] = set()
        self.indices: list[int] = []
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """A new epoch: nothing is processed. Call it at the end of an epoch, so that a restart does not skip it."""
        self.epoch = epoch
        self.processed_indices = set()
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """This rank has processed its batch of this number."""
        self.record_indices(self.indices[batch_idx * batch_size : (batch_idx + 1) * batch_size])

    @property
    def processed_num(self) -> int:
        """How many samples are known to be processed: this rank's, or everybody's after a sync."""
        return len(self.processed_indices)

    def record_indices(self, indices: list[int]) -> None:
        self.processed_indices.update(indices)

    def reset(self) -> None:
        """Deal out again: after a restart, with the ranks that there are now."""
        size, rank = (world.size(), world.rank()) if world.is_initialized() else (1, 0)
        left = [i for i in range(len(self.dataset)) if i not in self.processed_indices]
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(left)
        each = math.ceil(len(left) / size)
        missing = each * size - len(left)
        padded = left + (left * math.ceil(missing / len(left)))[:missing] if left else []
        self.indices = padded[rank::size]

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "processed_indices": sorted(self.processed_indices)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.epoch = state_dict["epoch"]
        self.processed_indices = set(state_dict["processed_indices"])
        self.reset()

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices)

    def __len__(self) -> int:
        return len(self.indices)
