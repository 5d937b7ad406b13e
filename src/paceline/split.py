"""Where the step goes: the Samples of all workers of one Trial -> one Split.

Over workers, for step k:

    step         = max_i mean_k step_i(k)                a synchronous step is the slowest worker's
    wait_i(k)    = release − own arrival                 from arrival times; all are released together
    wire(k)      = min_i wait_i(k)                       the last to arrive waits only for the network
    own_i(k)     = step_i(k) − wait_i(k)                 what worker i does by itself: compute, input, optimizer
    typical r    = the worker whose mean own time is the lower median over workers
    straggle     = step − mean_k (own_r(k) + wire(k))    what the typical worker waits beyond that: for late workers

so step = compute + wire + straggle holds, with compute = own_r. (The mean comes before the maximum: what a slow ring
ends later on one worker in one step it ends earlier in the next, and the largest of every single step would count that
as time.) Waits are known in the steps that every worker looked at (all of them when steps are long). Those give the
shares of wire, straggle and compute in a step; step_s is the mean over all steps, and each part is its share of that:
the ten steps that were looked at may by chance be longer than the others. Workers that exchange nothing wait for
nobody, however long the others take. One late worker of two is not typical (lower median). Random lateness averages
out: straggle is then E[max] − mean, the price of synchrony. Over steps: the mean of the steps whose longest step_i(k)
lies between the 10% and 90% quantile.

Copying the last bucket back into the gradients comes after the exchange and before the release. No network wins it
back, so its (measured) time is counted as compute, not as wire.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from paceline.records import BucketReady, Sample, Split, TrialResult, WorkerRecord
from paceline.stats import deviation, lower_median, steady_start

__all__ = ["split"]

_FEWEST_STEPS = 3
_LAG_RATIO = 0.03  # a worker is named as late when its lag is at least this share of the step …
_LAG_DEVIATIONS = 4.0  # … and this many standard errors


@dataclass(frozen=True, slots=True)
class _Step:
    """One step over all workers."""

    longest_s: float
    wire_s: float
    waits_s: tuple[float, ...]
    owns_s: tuple[float, ...]
    hidden_s: float
    samples: tuple[Sample, ...]
    looked: bool  # every worker read its waits in this step


def split(result: TrialResult, *, warmup: int, steps: int) -> Split | None:
    """The split of one Trial over its measured steps (after `warmup`, at most `steps`); None if there are too few."""
    workers = result.workers
    world = result.trial.point.workers
    if len(workers) < world or not workers:
        return None
    aligned = _aligned(workers, first=warmup + 2, last=warmup + steps)
    if len(aligned) < _FEWEST_STEPS:
        return None
    start = steady_start([step.longest_s for step in aligned], at_least=0)
    kept = _central(aligned[start:])
    looked = [step for step in aligned[start:] if step.looked]
    seen = len(looked) >= _FEWEST_STEPS and all(w.manifest.get("waits_seen", True) for w in workers)
    looked = _central(looked) if seen else kept
    owns = [fmean(step.owns_s[i] for step in looked) for i in range(world)]
    typical = owns.index(lower_median(owns))
    step_s = _slowest_s(kept)
    meets = world > 1 and any(sample.exchanges for step in looked for sample in step.samples)
    waited_s, lateness_s = (
        _exposed(looked, typical, copy_back_s=_copy_back_s(workers)) if meets else (0.0, 0.0)
    )
    share = step_s / _slowest_s(looked)
    wire_s, straggle_s = share * waited_s, share * lateness_s
    hidden_s = fmean(step.hidden_s for step in looked)
    late, lag_s = _latest(looked, owns, typical, step_s) if seen and meets else (None, None)
    inputs = [value for step in kept if (value := step.samples[typical].input_s) is not None]
    buckets, backward_end_s = _timeline(workers)
    return Split(
        step_s=step_s,
        compute_s=step_s - wire_s - straggle_s if seen else None,
        exposed_s=wire_s + straggle_s if seen else None,
        wire_s=wire_s if seen else None,
        straggle_s=straggle_s if seen else None,
        hidden_s=hidden_s if seen else None,
        busy_s=hidden_s + waited_s if seen and world > 1 else None,
        input_s=fmean(inputs) if inputs else None,
        optimizer_s=fmean(known) if (known := _optimizer_s(kept, typical)) else None,
        samples_per_step=_samples_per_step(kept),
        per_worker_batch=_usual_batch(kept),
        exchanged_bytes_per_step=_bytes_per_step(looked),
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
    )


def _exposed(steps: Sequence[_Step], typical: int, *, copy_back_s: float) -> tuple[float, float]:
    """Wire and straggle: what the last to arrive waits, and what the typical worker's step takes beyond that."""
    waited_s = fmean(step.wire_s for step in steps)
    whole_s = _slowest_s(steps) - fmean(step.owns_s[typical] for step in steps)
    return max(0.0, waited_s - copy_back_s), max(0.0, whole_s - waited_s)


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
    if len(steady) < _FEWEST_STEPS:
        steady = chosen
    return [_joined(tuple(samples[k] for samples in by_worker)) for k in steady]


def _joined(samples: tuple[Sample, ...]) -> _Step:
    if len(samples) == 1:
        return _Step(samples[0].step_s, 0.0, (0.0,), (samples[0].step_s,), 0.0, samples, True)
    exchanges = [sample.exchanges or () for sample in samples]
    waits = tuple(sum(e.wait_s for e in own) for own in exchanges)
    if (
        len({len(own) for own in exchanges}) == 1
    ):  # the same collectives: the last to arrive may differ from one to the next
        wire_s = sum(min(e.wait_s for e in together) for together in zip(*exchanges, strict=True))
    else:
        wire_s = min(waits)
    owns = tuple(sample.step_s - wait for sample, wait in zip(samples, waits, strict=True))
    hidden_s = sum(e.overlap_s for e in exchanges[waits.index(min(waits))])
    looked = all(sample.exchanges is not None for sample in samples)
    return _Step(max(s.step_s for s in samples), wire_s, waits, owns, hidden_s, samples, looked)


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
    if lag_s > _LAG_RATIO * step_s and lag_s > _LAG_DEVIATIONS * error_s:
        return slowest, lag_s
    return None, None


def _optimizer_s(steps: Sequence[_Step], typical: int) -> list[float]:
    return [value for step in steps if (value := step.samples[typical].optimizer_s) is not None]


def _more_input_s(steps: Sequence[_Step], late: int, typical: int) -> float | None:
    """What the late worker waits for data beyond what the typical one does."""
    pairs = [(step.samples[late].input_s, step.samples[typical].input_s) for step in steps]
    known = [more - usual for more, usual in pairs if more is not None and usual is not None]
    return fmean(known) if known else None


def _samples_per_step(steps: Sequence[_Step]) -> float | None:
    totals = [[s.samples for s in step.samples] for step in steps]
    known = [sum(x for x in counts if x is not None) for counts in totals if None not in counts]
    return fmean(known) if known else None


def _usual_batch(steps: Sequence[_Step]) -> int | None:
    seen = Counter(s.samples for step in steps for s in step.samples if s.samples is not None)
    return seen.most_common(1)[0][0] if seen else None


def _bytes_per_step(steps: Sequence[_Step]) -> float | None:
    values = [
        max((s.exchanged_bytes for s in step.samples if s.exchanged_bytes is not None), default=None)
        for step in steps
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
    usable = [t for t in timelines if isinstance(t, Mapping) and isinstance(t.get("buckets"), list)]
    if not usable or len({len(t["buckets"]) for t in usable}) != 1:
        return (), None
    count = len(usable[0]["buckets"])
    buckets = tuple(
        BucketReady(int(usable[0]["buckets"][j][0]), max(float(t["buckets"][j][1]) for t in usable))
        for j in range(count)
    )
    ends = [end for t in usable if (end := number(t, "backward_end_s")) is not None]
    return buckets, max(ends) if ends else None


def _bucket_cap_bytes(workers: Sequence[WorkerRecord]) -> float | None:
    flags = workers[0].manifest.get("ddp_flags")
    return number(flags, "bucket_cap_bytes") if isinstance(flags, Mapping) else None


def cores_of(manifest: Mapping[str, object]) -> int | None:
    """The whole cores that a worker may use, one at least."""
    cores = core_time(manifest)
    return None if cores is None else max(1, int(cores))


def core_time(manifest: Mapping[str, object]) -> float | None:
    """How many cores' time a worker may use: those it may run on, or what its container's quota pays for."""
    cpus, quota = number(manifest, "cpus"), number(manifest, "cpu_quota")
    if cpus is None or cpus < 1:
        return None
    return cpus if quota is None else min(cpus, quota)


def number(mapping: Mapping[str, object], key: str) -> float | None:
    """A number from a manifest, None if it is absent or something else."""
    value = mapping.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
