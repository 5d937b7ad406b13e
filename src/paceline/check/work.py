"""Did a step consume what was asked for, and did the workers see different data? Launches of a Point -> Findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from paceline.core.manifest import number
from paceline.measure.profiles import Launches
from paceline.measure.strategy import fingerprint, replicas
from paceline.records import Finding, WorkerRecord

__all__ = ["work"]

FEWEST_STEPS_PER_EPOCH = 10
VARYING_RATIO = 0.05  # of the usual batch: further from it the mean batch is worth a word


def work(group: Launches) -> Iterator[Finding]:
    """Did the workers see the batch that was asked for, and different data?"""
    point = group.point
    yield from _as_asked(group)
    yield from _witnesses(group)
    means = [part.samples_per_step for part in group.splits if part.samples_per_step is not None]
    mean = fmean(means) if means else None
    usual = group.splits[0].global_batch
    if mean is not None and usual and abs(mean - usual) > VARYING_RATIO * usual:
        yield Finding(
            "batch-varies",
            "note",
            f"the batches differ: {mean:.4g} samples per step on average, {usual:.4g} in most steps; "
            "throughput counts what was delivered",
            value=mean,
            threshold=float(usual),
            point=point.id,
        )
    if any(_see_the_same(r.workers) for r in group.results if r.state == "ok"):
        yield Finding(
            "same-data",
            "doubt",
            f"all {point.workers} workers were given the same batches: more workers, no more data",
            hint="use a DistributedSampler (or shard the iterable data set)",
            point=point.id,
        )
    sizes = {
        number(info, "dataset_size")
        for r in group.results
        for w in r.workers
        if (info := _loader(w.manifest))
    }
    size = min((s for s in sizes if s), default=None)
    if size and point.global_batch and size < FEWEST_STEPS_PER_EPOCH * point.global_batch:
        yield Finding(
            "small-dataset",
            "note",
            f"{size:.0f} samples are {size / point.global_batch:.1f} steps per epoch at global batch "
            f"{point.global_batch}: start-up and epoch ends weigh more than steps",
            value=size / point.global_batch,
            threshold=float(FEWEST_STEPS_PER_EPOCH),
            point=point.id,
        )


def _as_asked(group: Launches) -> Iterator[Finding]:
    """A Replica consumes what was asked for, in one micro-step or in each of several."""
    point, part = group.point, group.splits[0]
    asked = group.results[0].trial.point.per_worker_batch if group.results else None
    whole, copies = part.global_batch, part.replicas or point.workers
    if whole is None:
        yield Finding(
            "batch-unseen",
            "note",
            "no data loader was seen, so the batch could not be verified"
            + (
                ""
                if point.per_worker_batch
                else "; throughput is unknown and speed-up assumes the same batch per worker"
            ),
            hint="say it with --per-worker-batch" if point.per_worker_batch is None else None,
            point=point.id,
        )
    elif asked is not None and whole not in (asked * copies, asked * copies * part.micro_steps):
        yield Finding(
            "batch-differs",
            "doubt",
            f"asked for {asked} samples per worker and step, the script consumed {whole / copies:g}",
            value=whole / copies,
            threshold=float(asked),
            hint="name the script's own flag with --batch-flag, or put {per_worker_batch} into its arguments",
            point=point.id,
        )


def _witnesses(group: Launches) -> Iterator[Finding]:
    """Loaders and the network count the same samples, or the difference is said."""
    part = group.splits[0]
    loaded, entered, counted = part.loaded, part.entered, part.global_batch
    if loaded is None or entered is None or loaded == entered or counted is None:
        return
    yield Finding(
        "batch-witnesses",
        "note",
        f"loaders delivered {loaded} samples per step, {entered} entered the network; "
        f"throughput counts {counted // (part.replicas or 1)}",
        value=float(entered),
        threshold=float(loaded),
        hint="several views of a sample, or a worker that keeps its part of a batch, explain it; else look at the loop",
        point=group.point.id,
    )


def _see_the_same(workers: Sequence[WorkerRecord]) -> bool:
    """Whether all Replicas were given the same batches; the workers of one share theirs by design."""
    by_rank = {worker.rank: worker for worker in workers}
    marks = [fingerprint(by_rank[members[0]]) for members in replicas(workers)]
    return len(marks) > 1 and len(set(marks)) == 1 and len(marks[0]) > 1


def _loader(manifest: Mapping[str, object]) -> Mapping[str, object] | None:
    info = manifest.get("loader")
    return info if isinstance(info, Mapping) else None
