"""What to do: fastest, cheapest, by deadline, by budget, the knee, the Pareto set, and the next measurement.

work time   seconds per sample, epoch or training; × epochs to the target at that global batch, where they are known
cost        price × workers × time (worker-seconds where no price is given)
knee        the largest count up to which the 5% quantile of T(N/2)/T(N) is at least 1.5 (a doubling that costs at
            most a third more: doubling.py), or argmin (v + pN) T(N) where the value v of an hour is known
Pareto      a candidate stays unless another is both faster and cheaper with probability over one half
next        the measurement whose result would narrow the widest projection most:  1 − ρ²(log T_c, log T_target)
"""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy as np

from paceline.converge.epochs import EpochsLaw
from paceline.core import calibration
from paceline.core.stats import NINETY, powered, scaled
from paceline.core.units import counts_text, duration_range_text, duration_text, range_text, workers_text
from paceline.decide.options import (
    SURE,
    Candidates,
    Prices,
    best_for_some,
    candidates_of,
    cost_at,
    cost_ratio,
    gain_at,
    marginal_cost,
    time_at,
)
from paceline.measure.doubling import WORTH_PER_DOUBLING, smaller_count, worth
from paceline.predict.fit import Law
from paceline.predict.project import draws, estimate_of
from paceline.predict.refusals import Cores, price_text
from paceline.records import Estimate, Projection, Recommendation, Setting

__all__ = ["Prices", "recommendations", "undecided"]

_ENERGY = ((1.0, " kWh"), (1e3, " Wh"), (3.6e6, " J"))
_HARDLY = 0.95  # of an interval: what narrows it no more than this is not worth its launches


def recommendations(
    law: Law,
    projected: Sequence[Projection],
    *,
    epochs: EpochsLaw | None,
    prices: Prices,
    cores: Cores | None = None,
    failed: Container[int] = (),
) -> tuple[Recommendation, ...]:
    """What follows for the series that the sentence is about. failed: counts that were tried in vain."""
    following = _next_measurement(law, projected, cores, failed)
    last = () if following is None else (following,)
    candidates = candidates_of(law, projected, epochs=epochs, prices=prices)
    if candidates is None or len(candidates.settings) < 2:
        return last
    found = [_fastest(candidates), _cheapest(candidates), _knee(candidates, prices)]
    if prices.deadline_s is not None:
        found.append(_deadline(candidates, prices.deadline_s))
    if prices.budget is not None:
        found.append(_budget(candidates, prices, prices.budget))
    found.append(_pareto(candidates))
    if prices.worker_watts is not None:
        found.append(_energy(candidates, prices.worker_watts))
    return (*found, *last)


def _fastest(c: Candidates) -> Recommendation:
    """What is predicted is the fastest where it surely beats all that was measured."""
    time = np.median(c.time_s, axis=0)
    seen = [i for i, measured in enumerate(c.measured) if measured]
    if seen:
        best = min(seen, key=lambda i: time[i])
        surely = [float(np.mean(c.time_s[:, i] < c.time_s[:, best])) >= SURE for i in range(len(time))]
        time = np.where(np.array(surely) | np.array(c.measured), time, np.inf)
    return _recommend("fastest", c, int(np.argmin(time)))


def _cheapest(c: Candidates) -> Recommendation:
    best = int(np.argmin(np.median(c.cost, axis=0)))
    return _recommend("cheapest", c, best)


def _knee(c: Candidates, prices: Prices) -> Recommendation:
    if prices.value_per_hour is not None and prices.per_worker_hour is not None:
        workers = np.array([float(s.workers) for s in c.settings])
        total = (prices.value_per_hour + prices.per_worker_hour * workers) * np.median(c.time_s, axis=0)
        best = int(np.argmin(total))
        return _recommend("knee", c, best, "Best at this value of an hour")
    best, stopped_by = _knee_at(c)
    reasons = []
    if best:
        paid = f"Every doubling up to here gains {WORTH_PER_DOUBLING:g}x or more"
        reasons = [paid, _marginal(c, best, prices)]
    if stopped_by is not None:
        more, gain = stopped_by
        verb = "gain" if worth(gain) is False else "are not sure to pay, they gain"
        said = f"{c.settings[more].workers} {verb} {range_text(gain, unit='x')} per doubling"
        reasons.append(f"{said} ({WORTH_PER_DOUBLING:g}x is worth it)")
    return _recommend("knee", c, best, ". ".join(reasons))


def undecided(c: Candidates, prices: Prices) -> bool:
    """Whether the measurements cannot tell if more than the fewest workers pay: then nothing is recommended."""
    best, stopped_by = _knee_at(c)
    by_rule = prices.value_per_hour is None or prices.per_worker_hour is None
    return by_rule and best == 0 and stopped_by is not None and worth(stopped_by[1]) is None


def _knee_at(c: Candidates) -> tuple[int, tuple[int, Estimate] | None]:
    """The largest setting up to which every doubling surely pays; the next one, and what it gains, that does not."""
    best = 0
    counts = [setting.workers for setting in c.settings]
    for after, more in enumerate(counts):
        before = smaller_count(counts, more)
        if before is None:
            continue
        gain = powered(gain_at(c, after, before), 1 / float(np.log2(more / counts[before])))
        if not worth(gain):
            return best, (after, gain)
        best = after
    return best, None


def _deadline(c: Candidates, deadline_s: float) -> Recommendation:
    if not c.complete:
        return _unanswered(
            "deadline",
            f"a deadline needs the time of a whole training, what was measured is that of one {c.what}{_ask(c)}",
        )
    sure = [i for i in range(len(c.settings)) if float(np.mean(c.time_s[:, i] <= deadline_s)) >= SURE]
    if not sure:
        return _unanswered(
            "deadline", f"no candidate ends within {duration_text(deadline_s)} with 90% probability"
        )
    best = min(sure, key=lambda i: float(np.median(c.cost[:, i])))
    return _recommend(
        "deadline", c, best, f"The cheapest that ends within {duration_text(deadline_s)}, 9 times in 10"
    )


def _budget(c: Candidates, prices: Prices, budget: float) -> Recommendation:
    if not prices.priced:
        return _unanswered("budget", "a budget needs a price: --price 2.5/gpu-h")
    if not c.complete:
        return _unanswered(
            "budget",
            f"a budget needs the time of a whole training, what was measured is that of one {c.what}{_ask(c)}",
        )
    sure = [i for i in range(len(c.settings)) if float(np.mean(c.cost[:, i] <= budget)) >= SURE]
    if not sure:
        return _unanswered(
            "budget",
            f"no candidate stays within {budget:g} {prices.currency}".strip() + " with 90% probability",
        )
    best = min(sure, key=lambda i: float(np.median(c.time_s[:, i])))
    return _recommend(
        "budget", c, best, f"The fastest within {budget:g} {prices.currency}".rstrip() + ", 9 times in 10"
    )


def _pareto(c: Candidates) -> Recommendation:
    kept = [c.settings[i].workers for i in best_for_some(c)]
    names = f"{counts_text(kept)} {c.unit}{'' if kept == [1] else 's'}" if kept else "none"
    return Recommendation(
        "pareto",
        None,
        c.settings[0].per_worker_batch,
        None,
        None,
        None,
        "each is best at some price of time",
        f"no other is both faster and cheaper: {names}",
    )


def _energy(c: Candidates, watts: float) -> Recommendation:
    energy = c.time_s * np.array([s.workers for s in c.settings]) * watts / 3.6e6
    best = int(np.argmin(np.median(energy, axis=0)))
    value = estimate_of(energy[:, best], len(c.settings))
    factor, unit = next(scale for scale in _ENERGY if value.value * scale[0] >= 1.0 or scale is _ENERGY[-1])
    said = range_text(scaled(value, factor) or value, unit=unit)
    return Recommendation(
        "energy", c.settings[best].workers, c.settings[best].per_worker_batch, None, None, value, _condition(c, best),
        f"{workers_text(c.settings[best].workers, c.unit)}: the least energy, {said} per {c.what}",
        measured=c.measured[best],
    )  # fmt: skip


def _next_measurement(
    law: Law, projected: Sequence[Projection], cores: Cores | None, failed: Container[int]
) -> Recommendation | None:
    """The candidate between what was measured and what is predicted whose result says most about the farthest one."""
    far = [p for p in projected if p.time_s.low and p.time_s.high]
    if not far:
        return None
    target = max(far, key=lambda p: (p.workers, (p.time_s.high or 1.0) / (p.time_s.low or 1.0)))
    batch = target.per_worker_batch
    aim = Setting(target.workers, target.nodes, batch)
    tried = [
        Setting(p.workers, p.nodes, batch)
        for p in far
        if p.workers < target.workers and p.per_worker_batch == batch
    ]
    largest = int(law.observed.workers.max())
    if target.nodes > 1:
        tried += [Setting(n, n, batch) for n in (2, 4, 8) if largest < n < target.workers]
    tried += (
        [Setting(2 * largest, max(1, round(2 * largest * target.nodes / target.workers)), batch)]
        if 2 * largest < target.workers
        else []
    )
    tried = [
        setting
        for setting in dict.fromkeys(tried)
        if setting.workers not in failed and (cores is None or cores.suffice(setting.workers, setting.nodes))
    ]
    if not tried:
        return None
    drawn = draws(law, [aim, *tried])
    logs = np.log(drawn.time_s)
    centred = logs - logs.mean(axis=0)
    variance = centred.var(axis=0)
    covariance = (centred[:, [0]] * centred).mean(axis=0)
    left = 1.0 - covariance[1:] ** 2 / (variance[0] * (variance[1:] + calibration.LAUNCH.value**2))
    best = int(np.argmin(left))
    now = float(np.exp(2 * NINETY * np.sqrt(variance[0])))
    kept = float(drawn.discrepancy[0]) ** 2  # what no structure explains widens the next interval as well
    then = min(now, float(np.exp(2 * NINETY * np.sqrt(variance[0] * max(float(left[best]), 0.0) + kept))))
    if then > _HARDLY * now:
        return None
    chosen, unit = tried[best], law.observed.profiles[0].unit
    where = f" on {chosen.nodes} nodes" if chosen.nodes > 1 else ""
    return Recommendation(
        "next-measurement",
        chosen.workers,
        batch,
        None,
        Estimate(now / then, None, None, 1),
        None,
        "if the machines can be borrowed",
        f"{workers_text(chosen.workers, unit)}{where} ({price_text(law.observed, chosen.workers)})",
        why=f"It narrows the interval at {workers_text(target.workers, unit)} from {now:.1f}x to about {then:.1f}x",
    )


def _recommend(goal: str, c: Candidates, i: int, why: str = "") -> Recommendation:
    gain, cost, spent, more = gain_at(c, i), cost_at(c, i), time_at(c, i), cost_ratio(c, i)
    if c.measured[i]:  # its own repeats say how sure it is, the table of points shows that
        time, speed, price = duration_text(spent.value), f"{gain.value:.2f}x", f"{more.value:.2f}x"
    else:
        time = duration_range_text(spent)
        speed, price = range_text(gain, unit="x"), range_text(more, unit="x")
    text = f"{workers_text(c.settings[i].workers, c.unit)}: {time} per {c.what}"
    if i:
        how = "faster than" if gain.value > 1 else "the speed of"
        text += f", {speed} {how} {workers_text(c.settings[0].workers, c.unit)} at {price} the cost"
    return Recommendation(
        goal,
        c.settings[i].workers,
        c.settings[i].per_worker_batch,
        None,
        gain,
        cost,
        _condition(c, i),
        text,
        measured=c.measured[i],
        why=why,
    )


def _marginal(c: Candidates, i: int, prices: Prices) -> str:
    """What the last hour saved cost."""
    price = marginal_cost(c, i)
    if price is None:
        return "The last step up saved nothing"
    if not prices.priced:
        return _exchange_rate(c, i)
    return f"The last hour saved costs {price:.2g} {prices.currency}".rstrip()


def _exchange_rate(c: Candidates, i: int) -> str:
    """2 -> 4 workers: what the last step up saved, and what it took."""
    before, after = (time_at(c, j).value for j in (i - 1, i))
    few, many = (c.settings[j].workers for j in (i - 1, i))
    more = many * after - few * before
    saved = f"−{duration_text(before - after)} per {c.what}"
    return f"{few} → {workers_text(many, c.unit)}: {saved} for +{more:.2g} {c.unit}-seconds"


def _condition(c: Candidates, i: int) -> str:
    seen = "measured" if c.measured[i] else "predicted, if every worker gets its own device"
    batch = c.settings[i].per_worker_batch
    if c.to_accuracy:
        return f"{seen}; epochs from the accuracy curves"
    first = c.settings[0].per_worker_batch
    if batch is None or first is None or i == 0:
        return f"{seen}; time only: accuracy is not in it"
    whole = batch * c.settings[i].workers
    if whole == first * c.settings[0].workers:
        return f"{seen}; the global batch stays {whole}"
    return f"{seen}; time only: if accuracy survives a global batch of {whole}"


def _ask(c: Candidates) -> str:
    """What would make a training of it."""
    return "; say how many there will be: --epochs 90" if c.what == "epoch" else ""


def _unanswered(goal: str, why: str) -> Recommendation:
    return Recommendation(goal, None, None, None, None, None, "not answered", why)
