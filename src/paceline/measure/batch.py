"""How much a step consumes, from its witnesses: what loaders delivered, and what entered the network.

entered      samples in the batches that entered the network's forward in training, as often as backwards followed:
             two forwards for one backward saw the same samples
loaded       samples that loaders delivered to this worker
of a step    the smaller where both are known: a worker that loads the whole batch and keeps its part has consumed the
             part, one that makes two views of each sample has consumed the samples
Replica      the most of any member: they work on the same batch
all          the sum over Replicas, so nothing is multiplied where one worker loads for all
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from paceline.measure.strategy import Replicas, replicas
from paceline.records import Sample, WorkerRecord

__all__ = ["Consumed", "consumed"]

Count = Callable[[Sample], int | None]
Step = tuple[Sample, ...]  # by rank


@dataclass(frozen=True, slots=True)
class Consumed:
    """What the steps of one Trial consumed; None where nobody saw it."""

    samples_per_step: float | None = None  # of all workers together, on average
    global_batch: int | None = None  # in most steps
    per_worker_batch: int | None = None  # its share; None where it does not divide
    micro_steps: int = 1  # backwards of one step
    tokens_per_step: float | None = None
    loaded: int | None = None  # of one Replica, in most steps
    entered: int | None = None
    replicas: Replicas = ()


def consumed(workers: Sequence[WorkerRecord], steps: Sequence[Step]) -> Consumed:
    """What these steps, in which nothing started or ended, consumed."""
    groups = replicas(workers)
    places = {worker.rank: place for place, worker in enumerate(workers)}
    parts = tuple(tuple(places[rank] for rank in group) for group in groups)
    loaded, entered = (_usual(steps, parts, count) for count in (_loaded, _entered))
    witness = _entered if _is_believed(workers, loaded, entered) else _loaded
    totals = [total for step in steps if (total := _total(step, parts, witness)) is not None]
    usual = _usual(steps, parts, witness)
    whole = usual * len(parts) if usual is not None and totals else None
    if not totals and (alone := _loaded_for_all(steps)):
        totals, whole = alone, Counter(alone).most_common(1)[0][0]
    tokens = [_total(step, parts, _tokens) for step in steps]
    return Consumed(
        samples_per_step=fmean(totals) if totals else None,
        global_batch=whole,
        per_worker_batch=whole // len(workers) if whole and whole % len(workers) == 0 else None,
        micro_steps=_micro_steps(steps),
        tokens_per_step=fmean(known) if len(known := [t for t in tokens if t]) == len(tokens) > 0 else None,
        loaded=loaded if _is_batched(workers) else None,
        entered=entered,
        replicas=groups,
    )


def _entered(sample: Sample) -> int | None:
    return _once_per_backward(sample, sample.entered)


def _tokens(sample: Sample) -> int | None:
    return _once_per_backward(sample, sample.tokens)


def _loaded(sample: Sample) -> int | None:
    return sample.samples


def _once_per_backward(sample: Sample, count: int | None) -> int | None:
    if not count or not sample.forwards or not sample.backwards:
        return None
    return round(count * min(1.0, sample.backwards / sample.forwards))


def _is_believed(workers: Sequence[WorkerRecord], loaded: int | None, entered: int | None) -> bool:
    """Whether what entered the network tells more than what was loaded."""
    if entered is None or loaded is None:
        return entered is not None
    return entered < loaded or not _is_batched(workers)


def _is_batched(workers: Sequence[WorkerRecord]) -> bool:
    """Whether loaders made batches: what comes item by item has another first dimension."""
    loaders = [info for w in workers if isinstance(info := w.manifest.get("loader"), Mapping)]
    return all(info.get("batched", True) is True for info in loaders)


def _usual(steps: Sequence[Step], parts: Sequence[Sequence[int]], count: Count) -> int | None:
    """What one Replica consumes in most steps; None where one of them is never known to."""
    seen: Counter[int] = Counter()
    for part in parts:
        own = [most for step in steps if (most := _most(step, part, count)) is not None]
        if not own:
            return None
        seen.update(own)
    return seen.most_common(1)[0][0] if seen else None


def _total(step: Step, parts: Sequence[Sequence[int]], count: Count) -> int | None:
    each = [_most(step, part, count) for part in parts]
    known = [most for most in each if most is not None]
    return sum(known) if len(known) == len(each) else None


def _most(step: Step, part: Sequence[int], count: Count) -> int | None:
    return max((value for place in part if (value := count(step[place])) is not None), default=None)


def _loaded_for_all(steps: Sequence[Step]) -> list[int]:
    """What one worker loads while no other does."""
    own = [[count for sample in step if (count := sample.samples)] for step in steps]
    return [counts[0] for counts in own] if own and all(len(counts) == 1 for counts in own) else []


def _micro_steps(steps: Sequence[Step]) -> int:
    usual = Counter(sample.backwards for step in steps for sample in step).most_common(1)
    return max(1, usual[0][0]) if usual else 1
