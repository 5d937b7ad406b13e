"""Everything that may be chosen, with its time, its cost and what it occupies: the numbers under every advice.

time            as it was measured, with its own interval; as it is projected where it was not
worker_s        workers x time; node_s = nodes x time
cost            price x worker-hours or node-hours; worker-hours themselves where no price is given
Pareto          an Option stays unless another is both faster and cheaper with probability over one half
marginal cost   (cost - cost before) / hours saved, against the Option with the next smaller count
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.converge.epochs import EpochsLaw
from paceline.core import calibration
from paceline.core.errors import UsageError
from paceline.core.stats import ratio_of, scaled, t_quantile
from paceline.core.units import TIME_OF
from paceline.measure.series import headline_series
from paceline.predict.fit import Law
from paceline.predict.observations import time_of
from paceline.predict.project import draws, estimate_of
from paceline.predict.refusals import too_wide
from paceline.predict.step_law import Array
from paceline.records import Decision, Estimate, Option, Point, Profile, Projection, Setting

__all__ = [
    "SURE",
    "Candidates",
    "Prices",
    "best_for_some",
    "candidates_of",
    "cost_at",
    "cost_ratio",
    "decision_of",
    "gain_at",
    "marginal_cost",
    "planned",
    "time_at",
]

_ENOUGH_COUNTS, _FEW_REACH = (
    3,
    2,
)  # with fewer counts than three, advice goes no farther than twice the largest

SURE = 0.9  # a limit is kept when it is kept so often
MILLION = "a million samples"
_EPOCH = f"one {TIME_OF['epoch']}"
_FARTHEST = 7.0  # in logs, a factor of a thousand: two launches that differ leave room for anything


@dataclass(frozen=True, slots=True)
class Prices:
    """What resources cost and what is wanted: all optional."""

    per_worker_hour: float | None = None
    per_node_hour: float | None = None
    value_per_hour: float | None = None
    deadline_s: float | None = None
    budget: float | None = None
    worker_watts: float | None = None
    currency: str = ""
    epochs: float | None = None  # of the training that is planned

    @property
    def priced(self) -> bool:
        return self.per_worker_hour is not None or self.per_node_hour is not None

    @property
    def unit(self) -> str:
        """What a cost is counted in."""
        return (self.currency or "units of price") if self.priced else "worker-hours"


@dataclass(frozen=True, slots=True)
class Candidates:
    """Every setting that may be chosen: samples of its time and cost, [samples × settings], ascending in workers."""

    settings: tuple[Setting, ...]
    time_s: Array
    cost: Array  # in the unit of the prices; worker-seconds where there are none
    measured: tuple[bool, ...]
    what: str  # what the time is of
    priced: bool
    complete: bool  # whether it is the time of a whole training
    to_accuracy: bool  # whether it ends where accuracy is stable, by epochs that were measured or projected
    # the time as measured; None where it is projected, or rests on projected epochs
    seen: tuple[Estimate | None, ...]
    # the time as its Projection says it; None where it is measured
    projected: tuple[Estimate | None, ...]
    samples_per_epoch: int | None = None
    unit: str = "worker"


def candidates_of(
    law: Law, projected: Sequence[Projection], *, epochs: EpochsLaw | None, prices: Prices
) -> Candidates | None:
    """Settings of the series that the sentence is about; none whose time is only an order of magnitude."""
    observed = law.observed
    told = headline_series(observed.profiles)
    assert told is not None  # a law was fitted to them
    measured = {_setting(p): own for p in told.profiles if (own := time_of(p, observed.kind)) is not None}
    ahead = {
        Setting(p.workers, p.nodes, p.per_worker_batch): p
        for p in projected
        if too_wide(p, observed) is None
        and _belongs(p, told.baseline.point)
        and p.workers <= _reach(observed.workers)
    }
    settings = tuple(sorted(measured.keys() | ahead.keys(), key=lambda s: (s.workers, s.nodes)))
    if not settings:
        return None
    predicted = draws(law, settings).time_s.copy()
    for i, setting in enumerate(settings):
        if (known := measured.get(setting)) is not None:
            predicted[:, i] = _dealt(known, len(predicted), seed=i)
    factor, what = np.ones(len(settings)), TIME_OF[observed.kind]
    if observed.kind == "step" and observed.batch_known:
        factor, what = np.array([1.0 / (s.workers * (s.per_worker_batch or 1)) for s in settings]), "sample"
        if observed.samples is not None:
            factor, what = factor * observed.samples, "epoch"
    elif observed.kind == "step" and told.baseline.point.scaling == "weak":
        # in a step N workers do N times the work of one
        factor, what = np.array([1.0 / s.workers for s in settings]), "worker's batch"
    complete = observed.kind == "job"
    needed = None if epochs is None else epochs.samples(settings, observed.batch_known, seed=2)
    to_target = needed is not None and what in ("epoch", "training")
    if to_target:
        factor = factor / (observed.epochs or 1.0) if what == "training" else factor
        what, complete = "training to a stable accuracy", True
    elif what == "epoch" and prices.epochs is not None:
        factor, what, complete = factor * prices.epochs, f"training of {prices.epochs:g} epochs", True
    time = predicted * factor
    if needed is not None and to_target:
        time = time * needed[np.arange(len(time)) % len(needed)]
    hours = time / 3600.0
    workers = np.array([float(s.workers) for s in settings])
    nodes = np.array([float(s.nodes) for s in settings])
    if prices.per_worker_hour is not None:
        cost = hours * workers * prices.per_worker_hour
    elif prices.per_node_hour is not None:
        cost = hours * nodes * prices.per_node_hour
    else:
        cost = time * workers
    known_size = observed.samples if what == "epoch" and observed.kind == "step" else None
    return Candidates(
        settings=settings,
        time_s=time,
        cost=cost,
        measured=tuple(s in measured for s in settings),
        what=what,
        priced=prices.priced,
        complete=complete,
        to_accuracy=to_target,
        seen=tuple(
            None if to_target else scaled(measured.get(s), float(f))
            for s, f in zip(settings, factor, strict=True)
        ),
        projected=tuple(
            None if s in measured else _projected(ahead[s], float(f), to_target=to_target)
            for s, f in zip(settings, factor, strict=True)
        ),
        samples_per_epoch=known_size,
        unit=told.baseline.unit,
    )


def _reach(workers: Array) -> float:
    """The most workers that are advised: two counts say nothing of how a loss goes on, beyond one doubling."""
    return _FEW_REACH * float(workers.max()) if len(np.unique(workers)) < _ENOUGH_COUNTS else math.inf


def _projected(projection: Projection, factor: float, *, to_target: bool) -> Estimate | None:
    return projection.time_to_accuracy_s if to_target else scaled(projection.time_s, factor)


def time_at(c: Candidates, i: int) -> Estimate:
    """The time of a setting: one quantity has one interval, that of its launches or that of its Projection."""
    return c.seen[i] or c.projected[i] or estimate_of(c.time_s[:, i], len(c.settings))


def cost_at(c: Candidates, i: int) -> Estimate:
    """What a setting costs."""
    return _times(time_at(c, i), float(np.median(c.cost[:, i]) / np.median(c.time_s[:, i])))


def gain_at(c: Candidates, i: int, over: int = 0) -> Estimate:
    """How many times as fast one setting is as another."""
    before, after = c.seen[over], c.seen[i]
    if before is not None and after is not None:
        return ratio_of(before, after) if i != over else Estimate(1.0, 1.0, 1.0, after.n)
    return estimate_of(c.time_s[:, over] / c.time_s[:, i], len(c.settings))


def cost_ratio(c: Candidates, i: int) -> Estimate:
    """How many times as much a setting costs as the smallest."""
    before, after = c.seen[0], c.seen[i]
    if before is not None and after is not None:
        return ratio_of(cost_at(c, i), cost_at(c, 0)) if i else Estimate(1.0, 1.0, 1.0, after.n)
    return estimate_of(c.cost[:, i] / c.cost[:, 0], len(c.settings))


def _setting(profile: Profile) -> Setting:
    return Setting(profile.point.workers, profile.point.nodes, profile.point.per_worker_batch)


def _belongs(projection: Projection, point: Point) -> bool:
    """Whether a projection continues the series of a Point: the same batch per worker, or the same in all."""
    batch = projection.per_worker_batch
    if batch is None or point.per_worker_batch is None:
        return True
    if point.scaling == "weak" or point.global_batch is None:
        return batch == point.per_worker_batch
    return batch == max(1, round(point.global_batch / projection.workers))


def _dealt(known: Estimate, count: int, *, seed: int) -> Array:
    """Samples of a measured time whose median and 90% interval are the stated ones, in an order of their own.

    Every setting is dealt apart: launches of one say nothing about the luck of another. Deviations follow t over the
    launches, so that few launches leave much room; where one launch stands alone, launches differ as they usually do.
    """
    from scipy.special import stdtrit

    random = np.random.default_rng(seed)
    even = (np.arange(count // 2) + 0.5) / (count // 2 * 2)  # the lower half of evenly spread probabilities
    degrees = max(1, known.n - 1)
    if known.low is None or known.high is None or known.low <= 0:
        down = up = calibration.LAUNCH.value * t_quantile(1e6)
        degrees = int(1e6)
    else:
        down, up = np.log(known.value / known.low), np.log(known.high / known.value)
    half = random.permutation(stdtrit(degrees, even) / t_quantile(degrees))
    half *= random.choice([-1.0, 1.0], len(half))
    deviation = np.concatenate([half, np.zeros(count % 2), -half[::-1]])  # each with its opposite
    logs = np.where(deviation < 0, down, up) * deviation
    return np.asarray(known.value * np.exp(np.clip(logs, -_FARTHEST, _FARTHEST)))


def best_for_some(c: Candidates) -> list[int]:
    """The Pareto set: those than which no other is both faster and cheaper, more likely than not."""
    kept = []
    for i in range(len(c.settings)):
        rivals = (
            float(np.mean((c.time_s[:, j] <= c.time_s[:, i]) & (c.cost[:, j] <= c.cost[:, i])))
            for j in range(len(c.settings))
            if j != i
        )
        if all(chance <= 0.5 for chance in rivals):
            kept.append(i)
    return kept


def marginal_cost(c: Candidates, i: int) -> float | None:
    """What an hour saved costs more than at the Option before; None for the first one and where nothing is saved."""
    if i == 0:
        return None
    saved_h = float(np.median(c.time_s[:, i - 1]) - np.median(c.time_s[:, i])) / 3600.0
    extra = float(np.median(c.cost[:, i]) - np.median(c.cost[:, i - 1]))
    if saved_h <= 0:
        return None
    return max(0.0, extra) / saved_h / (1.0 if c.priced else 3600.0)


def decision_of(c: Candidates, prices: Prices, *, chosen: int | None) -> Decision:
    """Time against cost of every candidate. Where only the time of a sample is known, the work is a million of them."""
    factor, work = (1e6, MILLION) if c.what == "sample" else (1.0, f"one {c.what}")
    per_unit = factor if c.priced else factor / 3600.0
    kept = best_for_some(c)
    options = tuple(
        Option(
            workers=setting.workers,
            nodes=setting.nodes,
            per_worker_batch=setting.per_worker_batch,
            measured=c.measured[i],
            time_s=_times(time_at(c, i), factor),
            cost=_times(cost_at(c, i), per_unit),
            worker_s=_times(time_at(c, i), factor * setting.workers),
            node_s=_times(time_at(c, i), factor * setting.nodes),
            pareto=i in kept,
            marginal_cost=marginal_cost(c, i),
            meets_deadline=_kept_to(c.time_s[:, i], prices.deadline_s if c.complete else None),
            within_budget=_kept_to(c.cost[:, i], prices.budget if c.complete and c.priced else None),
        )
        for i, setting in enumerate(c.settings)
    )
    limits = (prices.deadline_s, prices.budget)
    return Decision(work, prices.unit, c.complete, options, *limits, chosen, c.samples_per_epoch)


def planned(
    decision: Decision, *, samples: float | None = None, epochs: float | None = None, trainings: int = 1
) -> Decision:
    """The same Options for work that is planned: so many samples, epochs or whole trainings."""
    factor, work = _amount(decision, samples, epochs)
    factor *= trainings
    if trainings != 1:
        work = f"{trainings} trainings of {work}" if work else f"{trainings} trainings"
    options = tuple(
        replace(
            option,
            time_s=_times(option.time_s, factor),
            cost=_times(option.cost, factor),
            worker_s=_times(option.worker_s, factor),
            node_s=_times(option.node_s, factor),
            meets_deadline=None,
            within_budget=None,
        )
        for option in decision.options
    )
    return replace(
        decision, work=work or decision.work, complete=True, options=options, deadline_s=None, budget=None
    )


def _amount(decision: Decision, samples: float | None, epochs: float | None) -> tuple[float, str]:
    """How many times the Decision's own work is planned, and what to call it."""
    if samples is not None:
        if decision.work == _EPOCH and decision.samples_per_epoch:
            return samples / decision.samples_per_epoch, f"{samples:,.0f} samples"
        if decision.work != MILLION:
            raise UsageError(
                f"the time of {decision.work} is known, not that of a sample",
                hint="give --epochs or --trainings",
            )
        return samples / 1e6, f"{samples:,.0f} samples"
    if epochs is not None:
        if decision.work != _EPOCH:
            raise UsageError(
                f"the time of {decision.work} is known, not that of an epoch",
                hint="give --samples (epochs x samples of the data set)"
                if decision.work == MILLION
                else "leave it out",
            )
        return epochs, f"{epochs:g} epochs"
    if not decision.complete:
        raise UsageError(
            f"the time of {decision.work} is known, not that of a training",
            hint="give --samples, or --epochs, of one training",
        )
    return 1.0, ""


def _kept_to(values: Array, limit: float | None) -> bool | None:
    return None if limit is None else float(np.mean(values <= limit)) >= SURE


def _times(quantity: Estimate, factor: float) -> Estimate:
    return scaled(quantity, factor) or quantity
