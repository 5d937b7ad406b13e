"""Exact evaluation: every sample once, and the same metric on the same weights whatever the number of workers.

The samples are cut into chunks of fixed size, numbered over all workers; worker r takes chunks r, r + N, …
Each chunk's sums are computed by one worker alone, in double precision, and put into a table that the workers add up:
an entry is non-zero on one worker only, so the table is bit for bit the same for every N. (A DistributedSampler would
repeat samples to give every worker as many, and the metric would depend on N.) A worker that is left without a chunk in
the last round computes the first one again and forgets it: a network in parts needs all workers for every forward.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import DataLoader

from paceline_workloads.data.examples import WithDraws
from paceline_workloads.training.task import Task
from paceline_workloads.training.workers import Workers

__all__ = ["evaluate", "own_chunks", "same_buffers"]


def own_chunks(samples: int, *, rank: int, workers: int, size: int) -> list[list[int]]:
    """The chunks of this worker: together the workers have every sample once."""
    starts = range(0, samples, size)[rank::workers]
    return [list(range(start, min(start + size, samples))) for start in starts]


@torch.no_grad()
def evaluate(task: Task, network: nn.Module, test: WithDraws, workers: Workers) -> dict[str, float]:
    """The metrics of these weights on all of the test data."""
    network.eval()
    size = task.judged_together
    chunks = own_chunks(len(test), rank=workers.rank, workers=workers.count, size=size)
    count = -(-len(test) // size)
    idle = [list(range(min(size, len(test))))] * (-(-count // workers.count) - len(chunks))
    loader = DataLoader(test, batch_sampler=[*chunks, *idle], collate_fn=_whole)
    sums = [_chunk_sums(task, network, batch, workers.device) for batch in loader]
    table = sums[0].new_zeros((count, len(sums[0])), dtype=torch.float64)
    if chunks:
        table[workers.rank :: workers.count] = torch.stack(sums[: len(chunks)]).double()
    if workers.count > 1:
        dist.all_reduce(table)
    return task.metrics(table.sum(0).cpu())


@torch.no_grad()
def same_buffers(network: nn.Module, workers: Workers) -> None:
    """Give every worker the first one's running statistics: those that are judged are those that are saved."""
    if workers.count > 1:
        for buffer in network.buffers():
            dist.broadcast(buffer, src=0)


def _chunk_sums(task: Task, network: nn.Module, batch: tuple[Tensor, ...], device: torch.device) -> Tensor:
    seen, targets = task.judging(*(part.to(device, non_blocking=True) for part in batch))
    return task.sums(network(seen), targets)


def _whole(batch: Any) -> Any:
    return batch
