"""Train to the end: epochs of steps, exact evaluation after each, checkpoint, early stop at a target.

worker r of N, step k        samples r, r + N, … of the global batch k, which is samples kB … (k+1)B of the epoch's
                             order. The order depends on seed and epoch alone, so N workers at global batch B take
                             the same steps as one worker at batch B.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler, Sampler

from paceline_workloads.data.examples import Batch, Examples, Part, WithDraws
from paceline_workloads.training import checkpoint
from paceline_workloads.training.adascale import AdaScale
from paceline_workloads.training.cuda_graph import CapturedStep
from paceline_workloads.training.evaluation import evaluate, same_buffers
from paceline_workloads.training.learner import Learner, learn, learner, set_rate
from paceline_workloads.training.learning_rate import RatePlan, peak, rate_of_step
from paceline_workloads.training.metrics import note
from paceline_workloads.training.options import Options, options
from paceline_workloads.training.refuse import refuse
from paceline_workloads.training.task import Task
from paceline_workloads.training.whole_state import restore, whole_state
from paceline_workloads.training.workers import Workers, joined, world_size

__all__ = ["main", "rate_plan", "train"]


@dataclass(slots=True)
class Progress:
    """How far the training is; what a checkpoint holds beside weights and optimizer."""

    epoch: int = 0
    step: int = 0
    wall_s: float = 0.0  # since the first step, evaluation included
    train_s: float = 0.0  # in steps alone
    in_epoch: int = 0  # steps of the epoch under way
    loss_sum: float = 0.0  # of those steps, the mean over workers


def main(flags: argparse.ArgumentParser, task_of: Callable[[Options, argparse.Namespace], Task]) -> None:
    """A workload's command line, from its words to its last epoch."""
    given = flags.parse_args()
    workers = world_size()
    asked = options(given, flags=flags, workers=workers)
    if asked.threads:
        torch.set_num_threads(asked.threads)
    task = task_of(asked, given)
    _check(task, asked, workers=workers)
    if asked.check:
        print(json.dumps(_summary(task, asked, workers=workers)))
        return
    with joined(asked.device) as joint:
        joint.say(f"{task.name}: {task.data.origin}")
        train(task, asked, joint)


def train(task: Task, asked: Options, workers: Workers) -> Learner:
    """Train as asked, from the start or from the newest checkpoint; the network as it is afterwards."""
    pupil, progress = learner(task, asked, workers), Progress()
    data, test = _placed(task, asked, workers), _placed_test(task, asked, workers)
    plan = rate_plan(asked, samples=len(data), workers=workers.count)
    scaling = _adascale(pupil, plan, asked, workers)
    if asked.resume:
        _resume(pupil, progress, asked, workers, scaling)
    step = CapturedStep(pupil) if asked.cuda_graph and workers.device.type == "cuda" else None
    sampler: DistributedSampler[Batch] = DistributedSampler(
        data, num_replicas=workers.count, rank=workers.rank, seed=asked.seed, drop_last=True
    )
    own_batch = asked.per_worker_batch(workers.count)
    rest = _Rest(sampler)
    loader = DataLoader(
        data,
        batch_size=own_batch,
        sampler=rest,
        drop_last=True,
        collate_fn=_whole,
        num_workers=0 if isinstance(task.data.train, Examples) else asked.loader_workers,
        pin_memory=workers.device.type == "cuda" and not isinstance(task.data.train, Examples),
    )
    if workers.first:
        note(asked.metrics, "start", _summary(task, asked, workers=workers.count))
    while progress.epoch < asked.epochs and not _enough(progress, asked):
        sampler.set_epoch(progress.epoch)
        data.set_epoch(progress.epoch)
        begun, first = perf_counter(), progress.step
        rest.skip = progress.in_epoch * own_batch * asked.accumulate
        clock = _Clock(progress)
        steps = _grouped(iter(loader), asked.accumulate)
        _reseed(progress, asked, workers)  # a loader draws a number when it begins
        loss = _epoch(pupil, steps, plan, progress, asked, step, scaling, workers, clock)
        mean = _mean_over_workers(loss / max(1, progress.in_epoch), workers)
        clock.stop()
        same_buffers(pupil.plain, workers)
        judged = perf_counter()
        metrics = evaluate(task, pupil.plain, test, workers)
        progress.wall_s += perf_counter() - judged
        progress.epoch, progress.in_epoch, progress.loss_sum = progress.epoch + 1, 0, 0.0
        samples_per_s = (progress.step - first) * plan.global_batch / (perf_counter() - begun)
        record = {
            "epoch": progress.epoch,
            "step": progress.step,
            "samples": progress.step * plan.global_batch,
            "wall_s": progress.wall_s,
            "train_s": progress.train_s,
            "lr": float(pupil.optimizer.param_groups[0]["lr"]),
            "train_loss": mean,
            **({} if scaling is None else {"lr_gain": scaling.gain}),
            **metrics,
        }
        if workers.first:
            note(asked.metrics, "epoch", record)
        shown = ", ".join(f"{name} {value:.4g}" for name, value in {"loss": mean, **metrics}.items())
        workers.say(f"epoch {progress.epoch} of {asked.epochs}: {shown} ({samples_per_s:,.0f} samples/s)")
        if not math.isfinite(mean):
            refuse(
                f"the loss is {mean} after {progress.step} steps at learning rate {record['lr']:.3g}",
                hint="a lower --lr, another --lr-rule, or --warmup-epochs",
            )
        _save(pupil, progress, asked, workers, scaling)
        if asked.target is not None and task.reached(metrics[task.goal], asked.target):
            workers.say(f"{task.goal} {metrics[task.goal]:.4g} reached the target {asked.target} "
                        f"in {progress.wall_s:.1f} s")  # fmt: skip
            break
    final = _judged_once(task, pupil, asked, workers)
    if workers.first:
        ending = {**vars_of(progress), "peak_memory_bytes": _peak_memory_bytes(workers), **final}
        note(asked.metrics, "end", ending)
    return pupil


def _judged_once(task: Task, pupil: Learner, asked: Options, workers: Workers) -> dict[str, float]:
    """The metrics on what nobody has looked at before, where a workload keeps such data."""
    if task.data.held_out is None or task.held_out_metrics is None:
        return {}
    part = _on_device(task.data.held_out, task.draws, asked.seed + 700_001, workers)
    metrics = evaluate(replace(task, metrics=task.held_out_metrics), pupil.plain, part, workers)
    workers.say("held out: " + ", ".join(f"{name} {value:.4g}" for name, value in metrics.items()))
    return metrics


def rate_plan(asked: Options, *, samples: int, workers: int) -> RatePlan:
    """The learning rate over the samples of this training."""
    return RatePlan(
        lr=asked.lr,
        base_batch=asked.base_batch,
        global_batch=asked.whole_batch(workers),
        rule=asked.lr_rule,
        schedule=asked.schedule,
        warmup_samples=asked.warmup_epochs * samples,
        total_samples=asked.epochs * samples,
    )


def vars_of(progress: Progress) -> dict[str, float]:
    """The progress as plain values."""
    return {name: getattr(progress, name) for name in Progress.__slots__}


def _epoch(
    pupil: Learner,
    steps: Iterator[list[Batch]],
    plan: RatePlan,
    progress: Progress,
    asked: Options,
    captured: CapturedStep | None,
    scaling: AdaScale | None,
    workers: Workers,
    clock: _Clock,
) -> Tensor:
    """The steps of one epoch; the sum of their losses, on the device: nobody waits for it in between."""
    pupil.network.train()
    total = torch.full((), progress.loss_sum, device=pupil.device)
    for batches in steps:
        set_rate(pupil.optimizer, rate_of_step(progress.step, plan) if scaling is None else scaling.rate())
        total += captured(batches[0]) if captured is not None else learn(pupil, batches)
        if scaling is not None:
            scaling.stepped()
        progress.step += 1
        progress.in_epoch += 1
        if asked.checkpoint_every is not None and progress.in_epoch % asked.checkpoint_every == 0:
            progress.loss_sum = _mean_over_workers(total, workers)
            total.fill_(progress.loss_sum)
            same_buffers(pupil.plain, workers)
            clock.stop()
            _save(pupil, progress, asked, workers, scaling)
            _reseed(progress, asked, workers)
        if _enough(progress, asked):
            break
    return total


class _Clock:
    """Adds what has passed since it was last stopped to the training's seconds."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._begun = progress, perf_counter()

    def stop(self) -> None:
        now = perf_counter()
        self._progress.train_s += now - self._begun
        self._progress.wall_s += now - self._begun
        self._begun = now


class _Rest(Sampler[Any]):
    """What a sampler gives after the first `skip`: the part of an epoch that a checkpoint has not seen."""

    def __init__(self, sampler: DistributedSampler[Batch]) -> None:
        self._sampler, self.skip = sampler, 0

    def __iter__(self) -> Iterator[Any]:
        return islice(iter(self._sampler), self.skip, None)

    def __len__(self) -> int:
        return max(0, len(self._sampler) - self.skip)


def _reseed(progress: Progress, asked: Options, workers: Workers) -> None:
    """Dropout, if any, follows from where the training is: the same whether it was resumed here or came here."""
    place = asked.seed * 1_000_003 + progress.epoch * 1009 + workers.rank
    torch.manual_seed(place + 1_000_000_007 * progress.in_epoch)


def _adascale(pupil: Learner, plan: RatePlan, asked: Options, workers: Workers) -> AdaScale | None:
    if plan.rule != "adascale" or plan.global_batch == plan.base_batch:
        return None
    part = asked.per_worker_batch(workers.count)
    return AdaScale(pupil.plain, plan, part=part, accumulate=asked.accumulate, optimizer=asked.optimizer)


def _enough(progress: Progress, asked: Options) -> bool:
    return asked.max_steps is not None and progress.step >= asked.max_steps


def _grouped(batches: Iterator[Batch], size: int) -> Iterator[list[Batch]]:
    """The batches of each step; a rest too small for a step is left out, as a rest too small for a batch is."""
    while len(group := list(islice(batches, size))) == size:
        yield group


def _placed(task: Task, asked: Options, workers: Workers) -> WithDraws:
    """What is learned from: in the device's memory where it is in ours."""
    return _on_device(task.data.train, task.draws, asked.seed, workers)


def _placed_test(task: Task, asked: Options, workers: Workers) -> WithDraws:
    """What judges; its draws never change."""
    return _on_device(task.data.test, task.draws, asked.seed + 500_009, workers)


def _on_device(part: Part, draws: int, seed: int, workers: Workers) -> WithDraws:
    if isinstance(part, Examples) and workers.device.type != "cpu":
        return WithDraws(part.to(workers.device), draws=draws, seed=seed, device=workers.device)
    return WithDraws(part, draws=draws, seed=seed, device=torch.device("cpu"))


def _mean_over_workers(value: Tensor, workers: Workers) -> float:
    if workers.count > 1:
        dist.all_reduce(value)
        value = value / workers.count
    return float(value)


def _save(
    pupil: Learner, progress: Progress, asked: Options, workers: Workers, scaling: AdaScale | None
) -> None:
    if asked.checkpoint is None:
        return
    whole = whole_state(pupil.plain, pupil.optimizer, keep=workers.first)
    if workers.first:
        state = {
            **whole,
            "progress": vars_of(progress),
            **({} if scaling is None else {"adascale": scaling.state()}),
            "seed": asked.seed,
            "global_batch": asked.whole_batch(workers.count),
        }
        checkpoint.save(asked.checkpoint, progress.epoch, state, keep=asked.keep, step=progress.in_epoch)
    if workers.count > 1:
        dist.barrier()


def _resume(
    pupil: Learner, progress: Progress, asked: Options, workers: Workers, scaling: AdaScale | None
) -> None:
    """Go on from the newest checkpoint; from the start where there is none. All workers read the same file."""
    path = None if asked.checkpoint is None else checkpoint.latest(asked.checkpoint)
    if path is None:
        workers.say("no checkpoint yet: from the start")
        return
    state = checkpoint.load(path)
    batch = asked.whole_batch(workers.count)
    if (state["seed"], state["global_batch"]) != (asked.seed, batch):
        refuse(
            f"{path} was trained with seed {state['seed']} and global batch {state['global_batch']}, "
            f"not {asked.seed} and {batch}",
            hint=f"--seed {state['seed']} --global-batch {state['global_batch']}, or another --checkpoint folder",
        )
    restore(pupil.plain, pupil.optimizer, state)
    for group in pupil.optimizer.param_groups:
        if isinstance(group["lr"], Tensor):  # a captured step reads it on the device
            group["lr"] = group["lr"].to(pupil.device)
    if scaling is not None and "adascale" in state:
        scaling.restore(state["adascale"])
    for name, value in state["progress"].items():
        setattr(progress, name, value)
    inside = f" and {progress.in_epoch} steps" if progress.in_epoch else ""
    workers.say(f"resumed after epoch {progress.epoch}{inside} from {path}")


def _check(task: Task, asked: Options, *, workers: int) -> None:
    """Refuse data that cannot be learned from, while nothing has been started."""
    samples, batch = len(task.data.train), asked.whole_batch(workers)
    if samples < batch:
        refuse(
            f"one step of {workers} workers takes {batch} samples and there are {samples} to learn from",
            hint=f"--batch-size {max(1, samples // (workers * asked.accumulate))}, or fewer workers",
        )
    if len(task.data.test) == 0:
        refuse("there is nothing to be judged by: the test data are empty", hint="check --data")
    if task.classes is not None and task.classes < 2:
        refuse(f"the data have {task.classes} class: there is nothing to learn", hint="check --data")


def _summary(task: Task, asked: Options, *, workers: int) -> dict[str, object]:
    plan = rate_plan(asked, samples=len(task.data.train), workers=workers)
    network = task.network()
    sizes = [p.numel() for p in network.parameters()]
    return {
        "workload": task.name,
        "data": task.data.origin,
        "generated": task.data.generated,
        "train_samples": len(task.data.train),
        "test_samples": len(task.data.test),
        "held_out_samples": len(task.data.held_out) if task.data.held_out is not None else None,
        "parameters": sum(sizes),
        "workers": workers,
        "global_batch": plan.global_batch,
        "per_worker_batch": asked.per_worker_batch(workers),
        "steps_per_epoch": len(task.data.train) // plan.global_batch,
        "epochs": asked.epochs,
        "peak_lr": peak(plan),
        "strategy": asked.strategy,
        "goal": task.goal,
        "rises": task.rises,
    }


def _peak_memory_bytes(workers: Workers) -> int:
    """Of the device where there is one, else of this process."""
    if workers.device.type == "cuda":
        return torch.cuda.max_memory_allocated(workers.device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _whole(batch: Any) -> Any:
    return batch
