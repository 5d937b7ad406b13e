"""A Law -> times at settings that were not measured, with 90% prediction intervals, and the term that binds.

    log T(N)  = mixture of structures × ensemble + s √(1 + 0.1 log2(N/N_fit)) z        z standard normal

s is the discrepancy that no structure explains: 9% inside a node, 10% across nodes, calibrated on held-out counts
(docs/background). Where hooks saw the buckets, gloo sends them, links between nodes were probed and every worker has
a node of its own, nothing is left to guess: 0.2% where computing leaves half of the cores to the exchange, else 1.5%;
both calibrated in the laboratory. Where a node would hold more than four workers and no more than four were seen on
one, what was lost so far may be lost again: min(2 loss, 0.4) is added to s in squares; so is what one worker's own
time differs by from step to step and, by half, from launch to launch. A projection's value is the median; its interval
the 5% and 95% quantiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.core import calibration
from paceline.core.units import duration_text, percent_text
from paceline.measure.comparable import SUPERLINEAR_RATIO
from paceline.predict.fit import Law, Member
from paceline.predict.observations import rows_of
from paceline.predict.step_law import (
    NAMES,
    Array,
    Rows,
    Structure,
    compute_after_wait_s,
    compute_s,
    exchange_s,
    log_time,
    shown_s,
    terms,
    waited_s,
)
from paceline.records import Estimate, Projection, Setting

__all__ = ["Draws", "draws", "estimate_of", "projections"]

_COPIES = 16  # discrepancies drawn for every member of the ensemble


@dataclass(frozen=True, slots=True)
class Draws:
    """Samples of the predictive distribution, [samples × settings]."""

    settings: tuple[Setting, ...]
    time_s: Array
    units: Array  # steps that the time covers
    fixed_s: Array  # [samples]: the part of the time that no worker count changes
    discrepancy: Array  # [settings]: the deviation of log time that no measurement takes away


def draws(law: Law, settings: Sequence[Setting]) -> Draws:
    """Samples of the time at every setting."""
    from scipy.special import ndtri

    rows = _rows(law, settings)
    parts = (
        _discrepancy(law, rows),
        _lost_again(law, settings, rows),
        _both_count(law, rows),
        _unsteady(law, rows),
        _contended(law, rows),
        _after_wait(law, rows),
        _batch_unseen(law, settings),
        np.full(len(settings), law.misfit),
    )
    spread = np.sqrt(sum(part**2 for part in parts))
    even = ndtri((np.arange(_COPIES) + 0.5) / _COPIES)  # evenly spread quantiles: no luck in the discrepancy
    shared = (even / even.std())[:, None]  # the same at every count: a law that is off is off everywhere
    logs, fixed = [], []
    for member in law.members:
        time, _ = log_time(member.theta[1:], rows, member.structure, law.observed.overlap, law.practice)
        logs.append(np.repeat(time, _COPIES, axis=0) + spread * np.tile(shared, (len(time), 1)))
        fixed.append(np.repeat(np.exp(member.theta[1:, NAMES.index("fixed")]), _COPIES))
    time = np.maximum(np.exp(np.concatenate(logs)), _least_s(law, settings))
    return Draws(tuple(settings), time, rows.units, np.concatenate(fixed), parts[0])


def estimate_of(samples: Array, n: int) -> Estimate:
    """Median and 90% interval of samples."""
    low, middle, high = (float(q) for q in np.quantile(samples, [0.05, 0.5, 0.95]))
    return Estimate(middle, low, high, n)


def projections(
    law: Law, settings: Sequence[Setting], *, epochs: Array | None = None
) -> tuple[Projection, ...]:
    """Every setting projected. `epochs`: samples of the epochs to the target accuracy, [samples × settings]."""
    if not settings:
        return ()
    predicted = draws(law, settings)
    observed, kind = law.observed, law.observed.kind
    base = int(np.argmin(observed.workers))
    n = len(observed.time_s)
    found = []
    for i, setting in enumerate(settings):
        time = predicted.time_s[:, i]
        batch = setting.per_worker_batch
        step = (time - predicted.fixed_s) / predicted.units[i] if kind in ("epoch", "job") else time
        real = observed.absolute and kind != "sample"
        rate: Array | None = None
        if kind == "sample":
            rate = 1.0 / time
        elif kind == "step" and batch is not None:
            rate = setting.workers * batch * law.practice.micro_steps / time
        elif observed.samples is not None and kind in ("epoch", "job"):
            trained = (observed.epochs or 1.0) if kind == "job" else 1.0
            rate = observed.samples * trained / time
        first = observed.profiles[_baseline(law, base, setting)].point
        gain = _speedup(law, base, setting, time)
        more = setting.workers / float(observed.workers[base])
        to_target = _time_to_accuracy(law, setting, time, None if epochs is None else epochs[:, i])
        found.append(
            Projection(
                workers=setting.workers,
                nodes=setting.nodes,
                per_worker_batch=batch,
                time_s=estimate_of(time, n),
                time_kind=kind,
                step_s=estimate_of(np.maximum(step, 1e-12), n) if real or kind == "step" else None,
                throughput_per_s=None if rate is None else estimate_of(rate, n),
                speedup=estimate_of(gain, n),
                efficiency_ratio=estimate_of(gain / more, n),
                time_to_accuracy_s=None if to_target is None else estimate_of(to_target, n),
                explanation=explanation(law, setting),
                scaling=first.scaling,
                baseline=first.id,
            )
        )
    return tuple(found)


def explanation(law: Law, setting: Setting) -> str:
    """The term that binds at a setting, and how large each is."""
    rows = _rows(law, [setting])
    shares: dict[str, list[float]] = {
        "computing": [],
        "exchange": [],
        "waiting for the slowest": [],
        "fixed": [],
    }
    binding: list[str] = []
    for member in law.members:
        best = member.theta[:1]
        compute, exposed, straggle = (
            float(t[0, 0]) for t in terms(best, rows, member.structure, law.observed.overlap, law.practice)
        )
        fixed = math.exp(best[0, NAMES.index("fixed")]) / float(rows.units[0])
        whole = compute + exposed + straggle + fixed
        for name, part in zip(shares, (compute, exposed, straggle, fixed), strict=True):
            shares[name].append(part / whole)
        binding.append(_binding(law, best, rows, member.structure))
    mean = {name: float(np.mean(parts)) for name, parts in shares.items()}  # means add up to the whole
    exchange, fixed = mean["exchange"], mean["fixed"]
    text = f"{percent_text(mean['computing'])} computing, {percent_text(exchange)} communication not hidden"
    for name, words in (("waiting for the slowest", ""), ("fixed", " cost")):
        if mean[name] > 0.02:
            text += f", {percent_text(mean[name])} {name}{words}"
    if mean["waiting for the slowest"] > max(exchange, fixed, 0.05):
        return text + ": waiting for the slowest is the limit"
    if mean["computing"] > 0.5 and exchange < 0.05 and fixed < 0.05:
        return text + ": computing is the limit"
    if fixed > exchange:
        return text + ": the fixed cost is the limit"
    bucket = _late_bucket(law, rows)
    return text + ": " + max(dict.fromkeys(binding), key=binding.count) + (f"; {bucket}" if bucket else "")


def _binding(law: Law, best: Array, rows: Rows, structure: Structure) -> str:
    """What costs more alone: the latency of every exchange, or the rate at which they move."""
    latency, move = _alone(law, best, rows, structure)
    where = "between nodes" if rows.nodes[0] > 1 else "inside a node"
    what = "latency" if float(latency[0, 0]) > float(move[0, 0]) else "rate"
    return f"the {what} of the links {where} is the limit"


def _alone(law: Law, best: Array, rows: Rows, structure: Structure) -> tuple[Array, Array]:
    """Latency and movement of all exchanges, each by itself; latencies of exchanges that go together pass together."""
    latency, move = exchange_s(best, rows, structure.tree)
    overlap = law.observed.overlap
    if overlap is not None and overlap.streams is not None:
        buckets = len(overlap.tail_share)
        latency = latency * math.ceil(buckets / overlap.streams) / buckets
    return latency, move


def _late_bucket(law: Law, rows: Rows) -> str | None:
    """Which bucket ends the step, where hooks saw them: the one of which most is left."""
    overlap = law.observed.overlap
    if overlap is None or rows.workers[0] < 2:
        return None
    member = law.members[0]
    compute = compute_after_wait_s(compute_s(member.theta[:1], rows, member.structure), rows)
    latency, move = exchange_s(member.theta[:1], rows, member.structure.tree)
    slowest = compute * (1.0 + rows.late_ratio) + waited_s(member.theta[:1], rows, compute)
    j = int(np.argmax(shown_s(overlap, rows, slowest, latency, move)[0][:, 0, 0]))
    ready = duration_text(float(overlap.ready_ratio[j] * slowest[0, 0]))
    return f"bucket {j + 1} of {len(overlap.tail_share)}, ready after {ready}, ends the step"


def _baseline(law: Law, base: int, setting: Setting) -> int:
    """The measured Baseline of the same batch where there is one; of weak and strong, the weak one."""
    observed = law.observed
    batch = float(setting.per_worker_batch or observed.batch[base])
    same = np.flatnonzero((observed.workers == observed.workers[base]) & (observed.batch == batch))
    weak = [int(i) for i in same if observed.profiles[i].point.scaling == "weak"]
    return next(iter([*weak, *(int(i) for i in same)]), base)


def _least_s(law: Law, settings: Sequence[Setting]) -> Array:
    """What no time can be below: 105% of what so many workers can do by the Baseline; a larger batch may do more."""
    observed = law.observed
    base = int(np.argmin(observed.workers))
    found = []
    for setting in settings:
        first = _baseline(law, base, setting)
        larger = float(setting.per_worker_batch or 0) > observed.batch[first]
        most = SUPERLINEAR_RATIO * setting.workers / float(observed.workers[first])
        found.append(0.0 if larger else float(_speedup(law, base, setting, np.ones(1))[0]) / most)
    return np.array(found)


def _speedup(law: Law, base: int, setting: Setting, time: Array) -> Array:
    """Work per second against the measured Baseline."""
    observed = law.observed
    batch = float(setting.per_worker_batch or observed.batch[base])
    first = _baseline(law, base, setting)
    before = float(observed.time_s[first])
    if observed.kind == "step":
        work = setting.workers * batch / (float(observed.workers[first]) * float(observed.batch[first]))
        work *= law.practice.micro_steps
        return np.asarray(work * before / time)
    return before / time


def _time_to_accuracy(law: Law, setting: Setting, time: Array, epochs: Array | None) -> Array | None:
    """Epochs to the target × seconds per epoch, both as samples."""
    observed = law.observed
    if epochs is None:
        return None
    if observed.kind == "epoch":
        per_epoch = time
    elif observed.kind == "job" and observed.epochs:
        per_epoch = time / observed.epochs
    elif observed.kind == "step" and observed.samples and setting.per_worker_batch:
        each = setting.per_worker_batch * law.practice.micro_steps
        per_epoch = time * math.ceil(math.ceil(observed.samples / setting.workers) / each)
    else:
        return None
    return per_epoch * epochs[np.arange(len(time)) % len(epochs)]


def _rows(law: Law, settings: Sequence[Setting]) -> Rows:
    """Settings as the step law takes them; an epoch has so many times fewer steps as each has micro-steps."""
    rows = rows_of(law.observed, settings)
    if law.observed.kind == "step":
        return rows
    return replace(rows, units=rows.units / law.practice.micro_steps)


def _discrepancy(law: Law, rows: Rows) -> Array:
    """s √(1 + 0.1 log2(N/N_fit)), per setting."""
    farther = np.log2(np.maximum(1.0, rows.workers / law.observed.workers.max()))
    base = np.where(
        rows.nodes > 1, calibration.DISCREPANCY_ACROSS.value, calibration.DISCREPANCY_INSIDE.value
    )
    if law.seen:
        known = calibration.DISCREPANCY_SEEN if _cores_free(law) else calibration.DISCREPANCY_BUSY
        base = np.where((rows.nodes > 1) & (rows.per_node == 1), known.value, base)
    return np.asarray(base * np.sqrt(1.0 + calibration.DISCREPANCY_GROWTH.value * farther))


def _cores_free(law: Law) -> bool:
    """Whether every worker left at least half of its node's cores to the exchange; unknown is no."""
    ratios = [profile.cpu_ratio for profile in law.observed.profiles]
    return all(ratio is not None and ratio.value < calibration.FREE_CORES.value for ratio in ratios)


def _unsteady(law: Law, rows: Rows) -> Array:
    """Three quarters of what differs from step to step and from worker to worker differs from minute to minute too.

    Over several launches that evens out: a projection speaks of as many as the Profile had."""
    noise, launches = law.observed.noise_ratio or 0.0, max(1, law.observed.profiles[0].trials)
    return np.full(
        len(rows.workers),
        calibration.JITTER_OF_MINUTES.value * noise / math.sqrt(launches)
        if noise > calibration.JITTER_UNSEEN.value
        else 0.0,
    )


def _contended(law: Law, rows: Rows) -> Array:
    """What computing and a hidden exchange are predicted to take from each other may be more or less."""
    overlap, member = law.observed.overlap, law.members[0]
    if overlap is None or not (overlap.carry_s or overlap.busy_hop_s):
        return np.zeros(len(rows.workers))
    whole, kept, swift = (
        log_time(member.theta[:1], rows, member.structure, each, law.practice)[0][0]
        for each in (overlap, replace(overlap, carry_s=0.0), replace(overlap, busy_hop_s=0.0))
    )
    return np.asarray(
        np.hypot(
            calibration.CONTENTION.spread * (whole - kept), calibration.BUSY_HOP.spread * (whole - swift)
        )
    )


def _after_wait(law: Law, rows: Rows) -> Array:
    """What computing takes longer for having waited is known as far as the probe knows it."""
    waited, member, overlap = law.observed.after_wait, law.members[0], law.observed.overlap
    if waited is None:
        return np.zeros(len(rows.workers))
    found, more = (
        log_time(member.theta[:1], each, member.structure, overlap, law.practice)[0][0]
        for each in (rows, replace(rows, after_wait_s=rows.after_wait_s + waited.sd_s))
    )
    return np.asarray(np.abs(more - found))


def _batch_unseen(law: Law, settings: Sequence[Setting]) -> Array:
    """A batch smaller or larger than all that were measured lies as far off the line as they do."""
    seen = law.observed.batches
    asked = [seen[0] if s.per_worker_batch is None else float(s.per_worker_batch) for s in settings]
    outside = [law.observed.batch_known and not seen[0] <= batch <= seen[-1] for batch in asked]
    return np.where(outside, calibration.BATCH.spread, 0.0)


def _both_count(law: Law, rows: Rows) -> Array:
    """10% of the exchange that shows, where latency and movement of gloo's rings are equal; less as they differ.

    The norm that joins the two is exact where one of them counts alone (evidence of the laboratory).
    """
    overlap, member = law.observed.overlap, law.members[0]
    if overlap is None or overlap.streams is None:
        return np.zeros(len(rows.workers))
    latency, move = _alone(law, member.theta[:1], rows, member.structure)
    longer = np.maximum(np.maximum(latency, move), np.finfo(float).tiny)
    step = terms(member.theta[:1], rows, member.structure, overlap, law.practice)
    return np.asarray(
        (calibration.DISCREPANCY_RING.value * np.minimum(latency, move) / longer * step[1] / sum(step))[0]
    )


def _lost_again(law: Law, settings: Sequence[Setting], rows: Rows) -> Array:
    """What four workers of a node lose, eight may lose again, or not at all: nodes of eight have two sockets and more
    than one switch. Nothing where a node would hold no more than four, or more than four were seen on one.

    loss: log of the time of a step over that of one worker, as the law predicts it; no more than 40% counts.
    """
    observed, half = law.observed, calibration.WORKERS_PER_SOCKET.value
    beyond = (rows.per_node > half) & bool(np.all(observed.workers <= half * observed.nodes))
    if not np.any(beyond):
        return np.zeros(len(settings))
    alone = _rows(law, [Setting(1, 1, setting.per_worker_batch) for setting in settings])
    losses = [_per_step(law, member, rows) - _per_step(law, member, alone) for member in law.members]
    loss = np.maximum(0.0, np.mean(losses, axis=0))
    return np.asarray(
        np.where(beyond, np.minimum(calibration.LOST_AGAIN.value * loss, calibration.LOST_AT_MOST.value), 0.0)
    )


def _per_step(law: Law, member: Member, rows: Rows) -> Array:
    """Log of the seconds per step, by the best parameters of one structure."""
    time, _ = log_time(member.theta[:1], rows, member.structure, law.observed.overlap, law.practice)
    return np.asarray(time[0] - np.log(rows.units))
