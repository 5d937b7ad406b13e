"""The network while it learns: how it is spread, its optimizer, and one step of it.

batches   b₁ … bₐ           forward and backward of each; gradients are added up
exchange                    at the last backward only: gradients are sent once per step
optimizer                   once
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from paceline_workloads.data.examples import Batch
from paceline_workloads.training.batch_norm import with_sync_batch_norm
from paceline_workloads.training.optimizers import optimizer
from paceline_workloads.training.options import Options
from paceline_workloads.training.refuse import refuse
from paceline_workloads.training.spread import (
    SHARDED,
    Spread,
    kept_here,
    recomputing,
    sharded,
    wrapped,
)
from paceline_workloads.training.task import Task
from paceline_workloads.training.workers import Workers

__all__ = ["Learner", "batch_loss", "learn", "learner", "set_rate"]


@dataclass(frozen=True, slots=True)
class Learner:
    """Everything that one step touches."""

    task: Task
    plain: nn.Module  # the network itself: what is judged and saved
    network: nn.Module  # the same inside its wrappers (DDP, compile): what learns
    exchange: Spread | None  # what sends gradients, which compile hides; None alone
    optimizer: Optimizer
    device: torch.device
    precision: str
    channels_last: bool


def learner(task: Task, asked: Options, workers: Workers) -> Learner:
    """Build the network, the same on every worker (same seed), and wrap it as asked."""
    torch.manual_seed(asked.seed)
    plain = task.network().to(workers.device)
    if asked.channels_last:
        plain = plain.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if asked.sync_batch_norm and workers.count > 1:
        plain = with_sync_batch_norm(plain, device=workers.device)
    if asked.checkpoint_activations:
        recomputing(plain)
    network: nn.Module = plain
    exchange: Spread | None = None
    if dist.is_initialized():
        if asked.strategy in SHARDED:
            exchange = sharded(plain, asked.strategy, workers.device)
        else:
            # a step can be captured only if DDP was made on another stream than the default one
            with torch.cuda.stream(torch.cuda.Stream()) if asked.cuda_graph else nullcontext():  # type: ignore[no-untyped-call]
                network = exchange = wrapped(plain)
            _compress(exchange, asked.exchange)
    if asked.compile:
        network = torch.compile(network)  # type: ignore[assignment]
    return Learner(
        task=task,
        plain=plain,
        network=network,
        exchange=exchange,
        optimizer=optimizer(
            asked.optimizer,
            plain,
            lr=asked.lr,
            momentum=asked.momentum,
            weight_decay=asked.weight_decay,
            capturable=asked.cuda_graph,
            shared=asked.strategy == "zero1" and dist.is_initialized(),
        ),
        device=workers.device,
        precision=asked.precision,
        channels_last=asked.channels_last,
    )


def learn(learner: Learner, batches: Sequence[Batch]) -> Tensor:
    """One step on these batches of this worker; the mean loss, still on the device."""
    learner.optimizer.zero_grad(set_to_none=True)
    losses = []
    for number, batch in enumerate(batches, start=1):
        last = number == len(batches)
        with nullcontext() if last else kept_here(learner.exchange):
            loss = batch_loss(learner, batch) / len(batches)
            loss.backward()  # type: ignore[no-untyped-call]
        losses.append(loss.detach())
    learner.optimizer.step()
    return losses[0] if len(losses) == 1 else torch.stack(losses).sum()


def batch_loss(learner: Learner, batch: Batch) -> Tensor:
    """Prepare, forward, loss."""
    seen, targets = learner.task.learning(*(part.to(learner.device, non_blocking=True) for part in batch))
    if learner.channels_last:
        seen = seen.contiguous(memory_format=torch.channels_last)
    with torch.autocast(learner.device.type, torch.bfloat16, enabled=learner.precision == "bf16"):
        outputs = learner.network(seen)
    return learner.task.loss(outputs.float(), targets)


def set_rate(optimizer: Optimizer, rate: float) -> None:
    """The learning rate of the next step; in place where a captured step reads it from the device."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def _compress(network: DistributedDataParallel, exchange: str) -> None:
    """Gradients in half the bytes (fp16, bf16), or as products of thin matrices (PowerSGD, rank 2)."""
    state: Any = None
    if exchange == "powersgd":
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=2, start_powerSGD_iter=2, use_error_feedback=True
        )
    hooks: dict[str, Any] = {
        "fp16": default_hooks.fp16_compress_hook,
        "bf16": default_hooks.bf16_compress_hook,
        "powersgd": powerSGD_hook.powerSGD_hook,
    }
    if exchange == "bf16" and dist.get_backend() != "nccl":
        refuse("--exchange bf16 needs NCCL; this training exchanges by gloo", hint="--exchange fp16")
    if exchange in hooks:
        network.register_comm_hook(state, hooks[exchange])
