"""Profiles -> what a fit sees: one setting per entry, its time, how sure it is, and in which unit of work.

units   how many steps the time covers: 1 for a step; ceil(ceil(D/N)/b) for an epoch over D samples, times the
        epochs for a whole training. Where D or b is unknown only the proportion is, and times are relative.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.core import calibration
from paceline.core.stats import log_error
from paceline.measure.split import LATE_RATIO
from paceline.predict.after_wait import AfterWait
from paceline.predict.jitter import Jitter, jitter_of_training
from paceline.predict.step_law import Array, Overlap, Rows
from paceline.records import Estimate, Profile, Setting, TimeKind

__all__ = ["Observed", "labels", "observe", "rows_of", "strong_batch", "time_of", "units_of"]

_LEAST_OPEN_BYTES = 64  # convention: in every step: the buffers of the smallest normalising layer are more
_MOST_ROWS = 240  # a law with a dozen parameters learns nothing more from row 241, only slowness


@dataclass(frozen=True, slots=True)
class Observed:
    """The measurements of one series, as arrays."""

    profiles: tuple[Profile, ...]
    kind: TimeKind
    workers: Array
    nodes: Array
    batch: Array  # 1 where the batch is unknown
    time_s: Array
    own_sd: Array  # of the log of the time, from repeats; 0 where one value stands alone
    exposed_ratio: Array  # nan where unknown
    units: Array
    batches: Array  # the distinct measured ones, ascending
    absolute: bool  # whether a step's seconds are known, not only proportions
    samples: int | None
    epochs: float | None
    gradient_bytes: float | None
    backend: str | None
    overlap: Overlap | None
    late_ratio: Array  # how much longer than its fellows the slowest worker computes; 0 where none stands out
    noise_ratio: float | None  # by how much a worker's own time differs from step to step, and among workers
    steps_ratio: float | None = None  # from step to step alone
    jitter: Jitter | None = None  # of several workers at once, as this training or a probe saw them
    after_wait: AfterWait | None = None  # what computing takes longer for having waited, as a probe saw it

    @property
    def batch_known(self) -> bool:
        return self.profiles[0].point.per_worker_batch is not None


def labels(profile: Profile) -> tuple[object, ...]:
    """What two Profiles must share to be described by one law."""
    return (profile.point.varied, profile.point.backend, profile.point.variant)


def time_of(profile: Profile, kind: TimeKind) -> Estimate | None:
    """The quantity that a series is measured in."""
    if kind == "step":
        return profile.step_s
    if kind == "epoch":
        return profile.epoch_s
    if kind == "job":
        return profile.job_s
    rate = profile.throughput_per_s
    if rate is None:
        return None
    low = None if rate.high is None else 1.0 / rate.high
    high = None if rate.low is None or rate.low <= 0 else 1.0 / rate.low
    return Estimate(1.0 / rate.value, low, high, rate.n)


def units_of(
    setting: Setting, kind: TimeKind, *, samples: int | None, epochs: float | None, largest_batch: float
) -> float:
    """How many steps the time covers, exactly or in proportion."""
    if kind == "step":
        return 1.0
    if kind == "sample":
        return 1.0 / setting.workers
    trained = (epochs or 1.0) if kind == "job" else 1.0
    batch = setting.per_worker_batch
    if samples is not None and batch is not None:
        return trained * max(1.0, math.ceil(math.ceil(samples / setting.workers) / batch))
    return trained * (largest_batch / (batch or largest_batch)) / setting.workers


def observe(
    profiles: Sequence[Profile],
    kind: TimeKind,
    *,
    samples: int | None = None,
    absolute: bool = True,
    backend: str | None = None,
) -> Observed | None:
    """The usable measurements of one series; None where there are none. backend: where its Points name none."""
    usable = [p for p in profiles if p.state == "ok" and time_of(p, kind) is not None]
    known = [p.point.per_worker_batch for p in usable]
    if any(b is None for b in known) and any(b is not None for b in known):
        usable = [p for p in usable if p.point.per_worker_batch is not None]
    usable.sort(key=lambda p: (p.point.workers, p.point.nodes, p.point.per_worker_batch or 0))
    if len(usable) > _MOST_ROWS:
        chosen = np.unique(np.linspace(0, len(usable) - 1, _MOST_ROWS).astype(int))
        usable = [usable[i] for i in chosen]
    if not usable:
        return None
    times = [time for p in usable if (time := time_of(p, kind)) is not None]
    batch = np.array([float(p.point.per_worker_batch or 1) for p in usable])
    units = [
        units_of(
            Setting(p.point.workers, p.point.nodes, p.point.per_worker_batch),
            kind,
            samples=samples,
            epochs=p.epochs,
            largest_batch=float(batch.max()),
        )
        for p in usable
    ]
    real = kind == "step" and absolute
    real = real or (
        kind in ("epoch", "job") and samples is not None and usable[0].point.per_worker_batch is not None
    )
    backend = usable[0].point.backend or backend
    overlap = _overlap(usable, backend)
    return Observed(
        profiles=tuple(usable),
        kind=kind,
        workers=np.array([float(p.point.workers) for p in usable]),
        nodes=np.array([float(p.point.nodes) for p in usable]),
        batch=batch,
        time_s=np.array([time.value for time in times]),
        own_sd=np.array([_log_sd(time) for time in times]),
        exposed_ratio=np.array([_exposed_ratio(p, kind) for p in usable]),
        units=np.array(units),
        batches=np.unique(batch),
        absolute=real,
        samples=samples,
        epochs=next((p.epochs for p in usable if p.epochs is not None), None),
        gradient_bytes=_gradient_bytes(usable, overlap),
        backend=backend,
        overlap=overlap,
        late_ratio=np.array([_late_ratio(p) for p in usable]),
        noise_ratio=_noise_ratio(usable),
        steps_ratio=_steps_ratio(usable),
        jitter=_jitter(usable),
    )


def rows_of(observed: Observed, settings: Sequence[Setting]) -> Rows:
    """Settings as the step law takes them; a batch between two measured ones leans on both."""
    batches = observed.batches
    batch = np.array([float(s.per_worker_batch or batches[len(batches) // 2]) for s in settings])
    if not observed.batch_known:
        batch = np.ones(len(settings))
    above = np.clip(np.searchsorted(batches, batch * (1 - 1e-9)), 0, len(batches) - 1)
    below = np.where(batches[above] <= batch * (1 + 1e-9), above, np.maximum(above - 1, 0))
    span = np.log(batches[above] / batches[below])
    weight = np.where(span > 0, np.log(batch / batches[below]) / np.where(span > 0, span, 1.0), 0.0)
    units = [
        units_of(
            s,
            observed.kind,
            samples=observed.samples,
            epochs=observed.epochs,
            largest_batch=float(batches.max()),
        )
        for s in settings
    ]
    return Rows(
        workers=np.array([float(s.workers) for s in settings]),
        nodes=np.array([float(s.nodes) for s in settings]),
        batch=batch / reference_batch(observed),
        below=below.astype(np.intp),
        above=above.astype(np.intp),
        weight=np.clip(weight, 0.0, 1.0),
        units=np.array(units),
        late_ratio=np.array([_late_at(observed, s) for s in settings]),
        after_wait_s=0.0 if observed.after_wait is None else observed.after_wait.seconds,
    )


def strong_batch(observed: Observed) -> int | None:
    """The global batch, where several counts kept it: then others would keep it too."""
    points = [profile.point for profile in observed.profiles]
    wholes = {point.global_batch for point in points}
    return wholes.pop() if len(wholes) == 1 and len({point.workers for point in points}) > 1 else None


def reference_batch(observed: Observed) -> float:
    """The middle measured batch: t_ref is the time of a step at it."""
    return float(observed.batches[len(observed.batches) // 2])


def measured_rows(observed: Observed) -> Rows:
    """The measured settings themselves, each with the units of its own epochs."""
    settings = [Setting(p.point.workers, p.point.nodes, p.point.per_worker_batch) for p in observed.profiles]
    rows = rows_of(observed, settings)
    return replace(rows, units=observed.units, late_ratio=observed.late_ratio)


def _log_sd(time: Estimate) -> float:
    """Standard error of the log; 0 where one value stands alone."""
    return log_error(time) or 0.0


def _exposed_ratio(profile: Profile, kind: TimeKind) -> float:
    if kind != "step" or profile.exposed_s is None or profile.step_s is None or profile.point.workers == 1:
        return math.nan
    return min(1.0, max(0.0, profile.exposed_s.value / profile.step_s.value))


def _late_ratio(profile: Profile) -> float:
    """How much longer the slowest worker computes than a typical one (lower median), if that stands out."""
    owns = sorted(profile.own_s_by_worker)
    if len(owns) < 2 or owns[0] <= 0:
        return 0.0
    ratio = owns[-1] / owns[(len(owns) - 1) // 2] - 1.0
    return ratio if ratio > LATE_RATIO else 0.0


def _noise_ratio(profiles: Sequence[Profile]) -> float | None:
    """As the Profile with the fewest workers that knows tells it: over steps, and half of what launches differ by.

    Of the latter part is the minute's, the same for all workers, and part is each worker's own.
    """
    for profile in profiles:
        alone = profile.compute_s or profile.step_s
        if (steps := _steps_ratio([profile])) is not None and alone is not None:
            return math.hypot(
                steps,
                calibration.JITTER_OF_LAUNCHES.value * (log_error(alone) or 0.0) * math.sqrt(profile.trials),
            )
    return None


def _steps_ratio(profiles: Sequence[Profile]) -> float | None:
    """By how much one worker's own time differs from step to step, as the Profile with the fewest workers tells it."""
    for profile in profiles:
        alone = profile.compute_s or profile.step_s
        if profile.step_noise_s is not None and alone is not None and alone.value > 0:
            return profile.step_noise_s.value / alone.value
    return None


def _jitter(profiles: Sequence[Profile]) -> Jitter | None:
    """As the Profile on the most nodes tells it: what its workers waited for each other, but for one always late."""
    for profile in sorted(profiles, key=lambda p: (p.point.nodes, p.point.workers), reverse=True):
        waited, computed = profile.straggle_s, profile.compute_s
        if profile.point.workers > 1 and waited is not None and computed is not None and computed.value > 0:
            late_s = _late_ratio(profile) * computed.value
            return jitter_of_training(waited, late_s, computed.value, profile.point.workers)
    return None


def _late_at(observed: Observed, setting: Setting) -> float:
    """A worker that is late among few is late among more: as seen at the most workers that are not more than asked."""
    fewer = np.flatnonzero((observed.workers > 1) & (observed.workers <= setting.workers))
    if setting.workers < 2 or not len(fewer):
        return 0.0
    return float(observed.late_ratio[fewer[np.argmax(observed.workers[fewer])]])


def _gradient_bytes(profiles: Sequence[Profile], overlap: Overlap | None) -> float | None:
    """What all-reduces carry: all that is exchanged, but for what is broadcast before forward."""
    known = [p.exchanged_bytes_per_step.value for p in profiles if p.exchanged_bytes_per_step is not None]
    positive = [size for size in known if size > 0]
    if not positive:
        return None
    return max(positive) / (1.0 + (overlap.open_share if overlap is not None else 0.0))


def _overlap(profiles: Sequence[Profile], backend: str | None) -> Overlap | None:
    """The bucket timeline of the Profile with the fewest workers that has one."""
    for profile in profiles:
        alone = profile.compute_s or profile.step_s
        if profile.buckets and profile.backward_end_s and alone is not None and alone.value > 0:
            sizes = np.array([float(bucket.size_bytes) for bucket in profile.buckets])
            if sizes.sum() <= 0:
                continue
            ready = np.array([bucket.ready_s for bucket in profile.buckets]) / alone.value
            return Overlap(
                ready_ratio=np.maximum.accumulate(ready),
                end_ratio=profile.backward_end_s / alone.value,
                tail_share=np.cumsum(sizes[::-1])[::-1] / sizes.sum(),
                streams=int(calibration.GLOO_STREAMS.value) if backend == "gloo" else None,
                cap_share=None
                if profile.bucket_cap_bytes is None
                else profile.bucket_cap_bytes / sizes.sum(),
                open_share=_open_bytes(profile, float(sizes.sum())) / float(sizes.sum())
                if backend == "gloo"
                else 0.0,
            )
    return None


def _open_bytes(profile: Profile, bucketed: float) -> float:
    """What a step exchanges beside its buckets; a metric now and then is not worth a collective."""
    exchanged = profile.exchanged_bytes_per_step
    if exchanged is None:
        return 0.0
    return more if (more := exchanged.value - bucketed) >= _LEAST_OPEN_BYTES else 0.0
