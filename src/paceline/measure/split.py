"""Where the step goes: the Samples of all workers of one Trial -> one Split.

Over workers, for step k:

    step         = max_i mean_k step_i(k)                a synchronous step is the slowest worker's
    wait_i(k)    = release − own arrival                 from arrival times; all are released together
    wire(k)      = sum over its communications           the last to arrive at one waits only for the network
                   of the least wait of a member         (waiting.py aligns them by group and number)
    bubble(k)    = of a pipeline: what even its          its stages wait for one another's parts of the batch
                   busiest stage waits for messages
    own_i(k)     = step_i(k) − wait_i(k)                 what worker i does by itself: compute, input, optimizer
    typical r    = the worker whose mean own time is the lower median over workers
    straggle     = step − mean_k (own_r(k) + wire(k) + bubble(k))    what the typical worker waits for late workers

so step = compute + wire + straggle + bubble holds, with compute = own_r. (The mean comes before the maximum: what a
slow ring ends later on one worker in one step it ends earlier in the next, and the largest of every single step would
count that as time.) Waits are known in the steps that every worker looked at (all of them when steps are long). Those
give the shares of wire, straggle and compute in a step; step_s is the mean over all steps, and each part is its share
of that: the ten steps that were looked at may by chance be longer than the others. Workers that exchange nothing wait
for nobody, however long the others take. One late worker of two is not typical (lower median). Random lateness averages
out: straggle is then E[max] − mean, the price of synchrony. Over steps: the mean of the steps whose longest step_i(k)
lies between the 10% and 90% quantile.

Copying the last bucket back into the gradients comes after the exchange and before the release. No network wins it
back, so its (measured) time is counted as compute, not as wire.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from paceline.core.manifest import number
from paceline.core.stats import deviation, lower_median, steady_start
from paceline.measure.batch import consumed
from paceline.measure.flops import flops_of
from paceline.measure.memory import fullest
from paceline.measure.strategy import strategies
from paceline.measure.waiting import Waiting, bus_bytes, waiting
from paceline.records import BucketReady, Sample, Split, TrialResult, WorkerRecord

__all__ = ["split"]

_FEWEST_SETTLED_STEPS = 3
LATE_RATIO = 0.03  # a worker is named as late when its lag is at least this share of the step …
_LAG_DEVIATIONS = 4.0  # … and this many standard errors


@dataclass(frozen=True, slots=True)
class _Step:
    """One step over all workers."""

    longest_s: float
    waiting: Waiting
    owns_s: tuple[float, ...]
    samples: tuple[Sample, ...]
    looked: bool  # every worker saw all of its communications in this step


def split(result: TrialResult, *, warmup: int, steps: int) -> Split | None:
    """The split of one Trial over its measured steps (after `warmup`, at most `steps`); None if there are too few."""
    workers = result.workers
    world = result.trial.point.workers
    if len(workers) < world or not workers:
        return None
    aligned = _aligned(workers, first=warmup + 2, last=warmup + steps)
    if len(aligned) < _FEWEST_SETTLED_STEPS:
        return None
    start = steady_start([step.longest_s for step in aligned], at_least=0)
    kept = _central(aligned[start:])
    looked = [step for step in aligned[start:] if step.looked]
    seen = len(looked) >= _FEWEST_SETTLED_STEPS and all(w.manifest.get("waits_seen", True) for w in workers)
    unseen = () if seen else _unseen(aligned[start:])
    looked = _central(looked) if seen else kept
    owns = [fmean(step.owns_s[i] for step in looked) for i in range(world)]
    typical = owns.index(lower_median(owns))
    step_s = _slowest_s(kept)
    meets = world > 1 and any(sample.exchanges for step in looked for sample in step.samples)
    named, used = strategies(workers), consumed(workers, [step.samples for step in kept])
    whole_s = _slowest_s(looked)
    share = step_s / whole_s
    waited_s = bubble_s = lateness_s = 0.0
    if meets:
        waited_s = max(0.0, fmean(s.waiting.wires_s[typical] for s in looked) - _copy_back_s(workers))
        bubble_s = (
            min(fmean(s.waiting.messages_s[i] for s in looked) for i in range(world))
            if "pp" in named
            else 0.0
        )
        before_s = fmean(s.owns_s[typical] + s.waiting.wires_s[typical] for s in looked)
        lateness_s = max(0.0, whole_s - before_s - bubble_s)
    wire_s, straggle_s, bubble_s = share * waited_s, share * lateness_s, share * bubble_s
    under_way = [s.waiting.hidden_s for s in looked if s.waiting.hidden_s is not None]
    hidden_s = fmean(under_way) if seen and len(under_way) == len(looked) else None
    late, lag_s = _latest(looked, owns, typical, step_s) if seen and meets else (None, None)
    inputs = [value for step in kept if (value := step.samples[typical].input_s) is not None]
    buckets, backward_end_s = _timeline(workers)
    return Split(
        step_s=step_s,
        compute_s=step_s - wire_s - straggle_s - bubble_s if seen else None,
        exposed_s=wire_s + straggle_s + bubble_s if seen else None,
        wire_s=wire_s if seen else None,
        straggle_s=straggle_s if seen else None,
        bubble_s=bubble_s if seen else None,
        hidden_s=hidden_s,
        busy_s=hidden_s + waited_s if hidden_s is not None and world > 1 else None,
        input_s=fmean(inputs) if inputs else None,
        optimizer_s=fmean(known) if (known := _optimizer_s(kept, typical)) else None,
        samples_per_step=used.samples_per_step,
        per_worker_batch=used.per_worker_batch,
        exchanged_bytes_per_step=_most_per_step(looked, lambda sample: sample.exchanged_bytes),
        bus_bytes_per_step=_most_per_step(looked, lambda sample: bus_bytes(sample, world)),
        peak_memory_bytes=_peak_memory(workers),
        overhead_s=max(fmean(step.samples[i].own_s for step in kept) for i in range(world)),
        steps=len(kept),
        slowest_worker=late,
        slowest_lag_s=lag_s,
        own_s_by_worker=tuple(owns),
        step_noise_s=deviation([step.owns_s[typical] for step in aligned[start:] if step.looked]),
        settled=start < max(2, len(aligned) // 2),
        buckets=buckets,
        backward_end_s=backward_end_s,
        bucket_cap_bytes=_bucket_cap_bytes(workers),
        missed_steps=min(steps, max(0, warmup + steps - min(w.samples[-1].k for w in workers))),
        slowest_input_s=None if late is None else _more_input_s(kept, late, typical),
        unseen=unseen,
        strategy=" + ".join(named) or None,
        replicas=len(used.replicas),
        global_batch=used.global_batch,
        micro_steps=used.micro_steps,
        tokens_per_step=used.tokens_per_step,
        flops=flops_of(workers),
        loaded=used.loaded,
        entered=used.entered,
        memory=fullest(workers),
    )


def _unseen(steps: Sequence[_Step]) -> tuple[tuple[str, int], ...]:
    """Why waits are not known, the most frequent reason first."""
    found: Counter[str] = Counter()
    for step in steps:
        for sample in step.samples:
            found.update(dict(sample.unseen))
        if not step.waiting.aligned:
            found["not aligned"] += 1
    return tuple(found.most_common())


def _slowest_s(steps: Sequence[_Step]) -> float:
    """The mean step of the worker whose mean is the largest."""
    return max(map(fmean, zip(*([sample.step_s for sample in step.samples] for step in steps), strict=True)))


def _aligned(workers: Sequence[WorkerRecord], *, first: int, last: int) -> list[_Step]:
    """Steps that every worker recorded, inside the measured range; steps in which a loader was restarted are left out
    as long as enough others remain."""
    by_worker = [{s.k: s for s in worker.samples if s.step_s > 0} for worker in workers]
    common = sorted(set.intersection(*(set(samples) for samples in by_worker)))
    chosen = [k for k in common if first <= k <= last] or [k for k in common if k >= 2]
    steady = [k for k in chosen if not any(samples[k].boundary for samples in by_worker)]
    if len(steady) < _FEWEST_SETTLED_STEPS:
        steady = chosen
    return [_joined(tuple(samples[k] for samples in by_worker)) for k in steady]


def _joined(samples: tuple[Sample, ...]) -> _Step:
    found = waiting([sample.exchanges or () for sample in samples])
    if len(samples) == 1:
        return _Step(samples[0].step_s, found, (samples[0].step_s,), samples, True)
    owns = tuple(sample.step_s - wait for sample, wait in zip(samples, found.waits_s, strict=True))
    looked = found.aligned and all(sample.exchanges is not None for sample in samples)
    return _Step(max(s.step_s for s in samples), found, owns, samples, looked)


def _central(steps: Sequence[_Step]) -> list[_Step]:
    """The steps between the 10% and 90% quantile of the step time."""
    ordered = sorted(step.longest_s for step in steps)
    cut = len(ordered) // 10
    low, high = ordered[cut], ordered[len(ordered) - 1 - cut]
    return [step for step in steps if low <= step.longest_s <= high]


def _latest(
    steps: Sequence[_Step], owns: Sequence[float], typical: int, step_s: float
) -> tuple[int | None, float | None]:
    """The worker that the others wait for, if its lag stands out; and its lag."""
    if len(owns) < 2:
        return None, None
    slowest = max(range(len(owns)), key=lambda i: owns[i])
    lags = [step.owns_s[slowest] - step.owns_s[typical] for step in steps]
    lag_s, error_s = fmean(lags), pstdev(lags) / len(lags) ** 0.5
    if lag_s > LATE_RATIO * step_s and lag_s > _LAG_DEVIATIONS * error_s:
        return slowest, lag_s
    return None, None


def _optimizer_s(steps: Sequence[_Step], typical: int) -> list[float]:
    return [value for step in steps if (value := step.samples[typical].optimizer_s) is not None]


def _more_input_s(steps: Sequence[_Step], late: int, typical: int) -> float | None:
    """What the late worker waits for data beyond what the typical one does."""
    pairs = [(step.samples[late].input_s, step.samples[typical].input_s) for step in steps]
    known = [more - usual for more, usual in pairs if more is not None and usual is not None]
    return fmean(known) if known else None


def _most_per_step(steps: Sequence[_Step], of: Callable[[Sample], float | None]) -> float | None:
    values = [
        max((value for s in step.samples if (value := of(s)) is not None), default=None) for step in steps
    ]
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _copy_back_s(workers: Sequence[WorkerRecord]) -> float:
    return max((number(worker.manifest, "copy_back_s") or 0.0) for worker in workers)


def _peak_memory(workers: Sequence[WorkerRecord]) -> int | None:
    peaks = [
        number(w.manifest, "peak_device_bytes") or number(w.manifest, "peak_memory_bytes") for w in workers
    ]
    known = [int(peak) for peak in peaks if peak]
    return max(known) if known else None


def _timeline(workers: Sequence[WorkerRecord]) -> tuple[tuple[BucketReady, ...], float | None]:
    """Bucket ready times: the latest worker's per bucket, because a bucket is reduced when the last one has it."""
    timelines = [w.manifest.get("timeline") for w in workers]
    usable = [t for t in timelines if isinstance(t, Mapping) and _are_buckets(t.get("buckets"))]
    if not usable or len({len(t["buckets"]) for t in usable}) != 1:
        return (), None
    count = len(usable[0]["buckets"])
    buckets = tuple(
        BucketReady(int(usable[0]["buckets"][j][0]), max(float(t["buckets"][j][1]) for t in usable))
        for j in range(count)
    )
    ends = [end for t in usable if (end := number(t, "backward_end_s")) is not None]
    return buckets, max(ends) if ends else None


def _are_buckets(told: object) -> bool:
    """Whether these are pairs of a size and a time, as the agent writes them."""
    return isinstance(told, list) and all(
        isinstance(pair, list)
        and len(pair) == 2
        and all(isinstance(value, int | float) and 0 <= value < math.inf for value in pair)
        for pair in told
    )


def _bucket_cap_bytes(workers: Sequence[WorkerRecord]) -> float | None:
    flags = workers[0].manifest.get("ddp_flags")
    return number(flags, "bucket_cap_bytes") if isinstance(flags, Mapping) else None
