"""Who trains: this process's number, how many there are, and its device."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist

from paceline_workloads.training.refuse import refuse

__all__ = ["Workers", "joined", "world_size"]


@dataclass(frozen=True, slots=True)
class Workers:
    """This worker among all of them."""

    rank: int
    count: int
    device: torch.device

    @property
    def first(self) -> bool:
        return self.rank == 0

    def say(self, text: str) -> None:
        """Print, on the first worker only."""
        if self.first:
            print(text, flush=True)


def world_size() -> int:
    """How many workers a launcher has started; 1 without one."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@contextmanager
def joined(device: str) -> Iterator[Workers]:
    """Join the other workers for the length of a training. Alone when no launcher has started us."""
    rank, count = int(os.environ.get("RANK", "0")), world_size()
    chosen = _device(device)
    if count > 1:
        dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    try:
        yield Workers(rank, count, chosen)
    finally:
        if count > 1:
            dist.destroy_process_group()


def _device(asked: str) -> torch.device:
    if asked == "cpu" or (asked == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    local, devices = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if local >= devices:
        refuse(
            f"worker {local} has no device: this node has {devices}", hint="fewer workers, or --device cpu"
        )
    torch.cuda.set_device(local)
    torch.backends.cudnn.benchmark = True  # batches have one size: the search for the fastest kernel pays
    return torch.device("cuda", local)
