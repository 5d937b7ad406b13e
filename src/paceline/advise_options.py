"""Everything that may be chosen, with its time, its cost and what it occupies: the numbers under every advice.

worker_s        workers x time; node_s = nodes x time
cost            price x worker-hours or node-hours; worker-hours themselves where no price is given
Pareto          an Option stays unless another is both faster and cheaper with probability over one half
marginal cost   (cost - cost before) / hours saved, against the Option with the next smaller count
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.convergence import EpochsLaw
from paceline.errors import UsageError
from paceline.fit import Law
from paceline.observe import Setting
from paceline.project import Draws, draws, estimate_of
from paceline.records import Decision, Estimate, Option, Projection
from paceline.refuse import too_wide
from paceline.stats import scaled
from paceline.step_law import Array
from paceline.units import TIME_OF

__all__ = [
    "SURE",
    "Candidates",
    "Prices",
    "best_for_some",
    "candidates_of",
    "decision_of",
    "marginal_cost",
    "planned",
]

SURE = 0.9  # a limit is kept when it is kept so often
MILLION = "a million samples"
_EPOCH = f"one {TIME_OF['epoch']}"


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
    samples_per_epoch: int | None = None


def candidates_of(
    law: Law, projected: Sequence[Projection], *, epochs: EpochsLaw | None, prices: Prices
) -> Candidates | None:
    """Settings at the batch that was measured at most counts; none whose time is only an order of magnitude."""
    observed = law.observed
    if observed.batch_known:
        batches, counts = np.unique(observed.batch, return_counts=True)
        batch: int | None = int(batches[np.argmax(counts)])
    else:
        batch = None
    measured = {
        (p.point.workers, p.point.nodes)
        for p in observed.profiles
        if batch is None or p.point.per_worker_batch == batch
    }
    sure = [p for p in projected if too_wide(p, observed) is None]
    foreseen = {(p.workers, p.nodes) for p in sure if p.per_worker_batch in (batch, None)}
    settings = tuple(Setting(n, m, batch) for n, m in sorted(measured | foreseen))
    if not settings:
        return None
    predicted = draws(law, settings)
    time = _exact_where_measured(law, settings, predicted)
    what = TIME_OF[observed.kind]
    if observed.kind == "step" and batch is not None:
        time, what = time / np.array([s.workers * batch for s in settings]), "sample"
        if observed.samples is not None:
            time, what = time * observed.samples, "epoch"
    complete = observed.kind == "job"
    needed = None if epochs is None else epochs.samples(settings, observed.batch_known, seed=2)
    if needed is not None and what in ("epoch", "training"):
        per_epoch = time / (observed.epochs or 1.0) if what == "training" else time
        time = per_epoch * needed[np.arange(len(time)) % len(needed)]
        what, complete = "training to a stable accuracy", True
    elif what == "epoch" and prices.epochs is not None:
        time, what, complete = time * prices.epochs, f"training of {prices.epochs:g} epochs", True
    hours = time / 3600.0
    workers = np.array([float(s.workers) for s in settings])
    nodes = np.array([float(s.nodes) for s in settings])
    if prices.per_worker_hour is not None:
        cost = hours * workers * prices.per_worker_hour
    elif prices.per_node_hour is not None:
        cost = hours * nodes * prices.per_node_hour
    else:
        cost = time * workers
    known = tuple((s.workers, s.nodes) in measured for s in settings)
    known_size = observed.samples if what == "epoch" and observed.kind == "step" else None
    return Candidates(settings, time, cost, known, what, prices.priced, complete, known_size)


def _exact_where_measured(law: Law, settings: Sequence[Setting], predicted: Draws) -> Array:
    """The draws, centred on the measurement where there is one: a law does not overrule what was seen.

    Every setting is dealt apart: launches of one say nothing about the luck of another.
    """
    time = predicted.time_s.copy()
    observed = law.observed
    for i, setting in enumerate(settings):
        batch = float(setting.per_worker_batch or 1)
        here = (
            (observed.workers == setting.workers)
            & (observed.nodes == setting.nodes)
            & (observed.batch == batch)
        )
        if np.any(here):
            seen = float(np.exp(np.mean(np.log(observed.time_s[here]))))
            spread = max(float(observed.own_sd[here].max()), 0.01)
            time[:, i] = seen * np.exp(spread * _dealt(len(time), seed=i))
    return time


def _dealt(count: int, *, seed: int) -> Array:
    """Evenly spread deviations in an order of their own, each with its opposite: medians of ratios stay as seen."""
    random = np.random.default_rng(seed)
    half = random.permutation(np.linspace(-1.6, 1.6, count)[: count // 2]) * random.choice(
        [-1.0, 1.0], count // 2
    )
    return np.concatenate([half, np.zeros(count % 2), -half[::-1]])


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
    n = len(c.settings)
    options = tuple(
        Option(
            workers=setting.workers,
            nodes=setting.nodes,
            per_worker_batch=setting.per_worker_batch,
            measured=c.measured[i],
            time_s=estimate_of(c.time_s[:, i] * factor, n),
            cost=estimate_of(c.cost[:, i] * per_unit, n),
            worker_s=estimate_of(c.time_s[:, i] * (factor * setting.workers), n),
            node_s=estimate_of(c.time_s[:, i] * (factor * setting.nodes), n),
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
