"""Trials that were trainings -> curves, and configurations compared by time to the target.

time to target    from the first step to the end of the first evaluation that reached it; over seeds the median, with
                  those that never reached it counted as longest. All reached: log-normal interval. Some: no upper end.
                  Half or fewer: unknown, beside how long they tried.
epoch             as the workload marks it; of a script, its n-th evaluation
difference        of the metric at the last epoch that all trainings have, against the first configuration
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from paceline.converge.epochs import (
    Curve,
    Verdict,
    accuracy_survives,
    critical_batch,
    epochs_law,
    noise_scale,
    plateau,
)
from paceline.converge.noise_scale import gradient_blocks
from paceline.core.stats import estimate, estimate_signed
from paceline.measure.profiles import Launches
from paceline.plan.goal import LR_RULE, WARMUP
from paceline.records import (
    AccuracyCurve,
    Comparison,
    Convergence,
    Estimate,
    Goal,
    Mark,
    Point,
    TrialResult,
)

__all__ = ["accuracy_convergence", "accuracy_curve", "metric_of", "rises_by_name"]

_FALLING = ("loss", "mse", "mae", "error", "err", "perplexity", "ppl", "wer", "cer", "fid")
_NOT_METRICS = {"epoch", "step", "samples", "wall_s", "train_s", "lr", "train_loss", "lr_gain"}
_MARGIN = 0.005  # half a point, where the metric lies between 0 and 1
_WIDER_MARGIN = 0.02  # of its size, elsewhere


def accuracy_convergence(goal: Goal, groups: Sequence[Launches]) -> Convergence | None:
    """Everything that the trainings of a study say; None where not one of them was evaluated."""
    results = [result for group in groups for result in group.results]
    metric = metric_of(goal, results)
    if metric is None:
        return None
    goal = replace(goal, rises=goal.rises if goal.metric else rises_by_name(metric))
    curves = {
        group.point.id: [accuracy_curve(result, metric, goal) for result in group.results] for group in groups
    }
    every = [curve for own in curves.values() for curve in own if curve.metric]
    last = min((curve.epochs[-1] for curve in every if curve.state == "ok"), default=None)
    first = next((curves[g.point.id] for g in groups if any(c.metric for c in curves[g.point.id])), [])
    found = [
        _comparison(group, curves[group.point.id], goal, metric=metric, baseline=first, epoch=last)
        for group in groups
        if group.results
    ]
    whole = _whole(groups, curves, goal, found)
    return Convergence(
        plateau_epoch=whole.plateau_epoch,
        censored=whole.censored,
        noise_scale=whole.noise_scale,
        critical_global_batch=whole.critical_global_batch,
        metric=metric,
        rises=goal.rises,
        target=goal.target,
        epochs=goal.epochs,
        curves=tuple(curve for own in curves.values() for curve in own),
        comparisons=tuple(sorted(found, key=_fastest_first)),
    )


def metric_of(goal: Goal, results: Sequence[TrialResult]) -> str | None:
    """The name under which the metric that counts was marked; found by its name where none was asked for."""
    names = dict.fromkeys(m.name for result in results for m in _marks(result) if m.name not in _NOT_METRICS)
    if goal.metric in names:
        return goal.metric
    if goal.metric is not None and "(" not in goal.metric:
        return None
    pool = list(names)
    wanted = [name for name in pool if "acc" in name.lower()]
    judged = [name for name in pool if name.lower().startswith(("val", "test", "eval"))]
    return next(iter([n for n in wanted if n in judged] or wanted or judged or pool), None)


def rises_by_name(metric: str) -> bool:
    """Whether more of a metric is better, from its name: losses and errors fall, everything else rises."""
    parts = metric.lower().replace("/", "_").replace("-", "_").split("_")
    return not any(part in _FALLING for part in parts)


def accuracy_curve(result: TrialResult, metric: str, goal: Goal) -> AccuracyCurve:
    """The curve of one training, by the clock of its first worker."""
    started = [s.end_s - s.step_s for w in result.workers if w.rank == 0 for s in w.samples[:1]]
    epochs: list[float] = []
    wall_s: list[float] = []
    values: list[float] = []
    epoch: float | None = None
    for mark in _marks(result):
        if mark.name == "epoch":
            epoch = mark.value
        elif mark.name == metric:
            epochs.append(len(epochs) + 1.0 if epoch is None else epoch)
            wall_s.append(max(0.0, mark.end_s - started[0]) if started else 0.0)
            values.append(mark.value)
    at = next((i for i, value in enumerate(values) if _reached(value, goal)), None)
    return AccuracyCurve(
        point=result.trial.point.id,
        trial=result.trial.id,
        seed=result.trial.repeat,
        state=result.state,
        epochs=tuple(epochs),
        wall_s=tuple(wall_s),
        metric=tuple(values),
        epochs_to_target=None if at is None else epochs[at],
        time_to_target_s=None if at is None else wall_s[at],
        trial_s=result.wall_s,
    )


def _comparison(
    group: Launches,
    curves: Sequence[AccuracyCurve],
    goal: Goal,
    *,
    metric: str,
    baseline: Sequence[AccuracyCurve],
    epoch: float | None,
) -> Comparison:
    point = group.point
    varied = dict(point.varied)
    missed = [c.wall_s[-1] for c in curves if c.time_to_target_s is None and c.wall_s]
    diverged = sum(c.state == "diverged" for c in curves)
    stable, censored = _plateau(curves, goal)
    difference, survives = _difference(curves, baseline, goal, epoch)
    warmup = varied.get(WARMUP)
    return Comparison(
        point=point.id,
        workers=point.workers,
        per_worker_batch=point.per_worker_batch,
        global_batch=point.global_batch,
        lr_rule=varied.get(LR_RULE),
        warmup_epochs=None if warmup is None else float(warmup),
        traits=tuple(_traits(point)),
        seeds=len(curves),
        reached=sum(c.time_to_target_s is not None for c in curves),
        diverged=diverged,
        failed=sum(c.state not in ("ok", "diverged") for c in curves),
        time_to_target_s=_censored([c.time_to_target_s for c in curves]),
        epochs_to_target=_censored([c.epochs_to_target for c in curves]),
        spent_s=max(missed, default=None),
        metric=_best(curves, goal),
        plateau_epoch=stable,
        plateau_censored=censored,
        epoch=epoch if difference is not None else None,
        difference=difference,
        survives=survives,
        noise_scale=_noise(group),
        beside=_beside(group, metric),
    )


def _censored(values: Sequence[float | None]) -> Estimate | None:
    """The median over seeds; None counts as longer than every other."""
    known = [value for value in values if value is not None]
    if not known or 2 * len(known) <= len(values):
        return None
    if len(known) == len(values):
        return estimate(known)
    ordered = sorted([*known, *([math.inf] * (len(values) - len(known)))])
    return Estimate(ordered[len(ordered) // 2], min(known), None, len(values))


def _difference(
    curves: Sequence[AccuracyCurve], baseline: Sequence[AccuracyCurve], goal: Goal, epoch: float | None
) -> tuple[Estimate | None, Verdict | None]:
    """How much better than the first configuration after the same epoch, and whether that is within the margin."""
    here, there = (
        [value if goal.rises else -value for c in some if (value := _metric_at(c, epoch)) is not None]
        for some in (curves, baseline)
    )
    if not here or not there or curves is baseline:
        return None, None
    share = all(0.0 <= value <= 1.0 for value in (*here, *there))
    margin = _MARGIN if share else _WIDER_MARGIN * max(abs(fmean(there)), 1e-12)
    found = accuracy_survives(there, here, margin=margin)
    return found.difference, found.verdict


def _metric_at(curve: AccuracyCurve, epoch: float | None) -> float | None:
    pairs = zip(curve.epochs, curve.metric, strict=True)
    return next((value for at, value in pairs if at == epoch), None)


def _best(curves: Sequence[AccuracyCurve], goal: Goal) -> Estimate | None:
    choose = max if goal.rises else min
    return _bounded([choose(curve.metric) for curve in curves if curve.metric], share=goal.rises)


def _beside(group: Launches, metric: str) -> tuple[tuple[str, Estimate], ...]:
    """The other metrics that were marked, the last value of each seed: baselines, correlation, a held-out part."""
    last: dict[str, list[float]] = {}
    for result in group.results:
        said = {mark.name: mark.value for mark in _marks(result) if mark.name not in {*_NOT_METRICS, metric}}
        for name, value in said.items():
            if math.isfinite(value):
                last.setdefault(name, []).append(value)
    found = {name: _bounded(values, share=rises_by_name(name)) for name, values in last.items()}
    return tuple((name, value) for name, value in found.items() if value is not None)


def _bounded(values: Sequence[float], *, share: bool) -> Estimate | None:
    """The mean over seeds, its interval within what the metric can be: no error below 0, no share above 1."""
    found = estimate_signed(values)
    if found is None or found.low is None or found.high is None or min(values) < 0.0:
        return found
    most = 1.0 if share and max(values) <= 1.0 else math.inf
    return replace(found, low=max(0.0, found.low), high=min(most, found.high))


def _plateau(curves: Sequence[AccuracyCurve], goal: Goal) -> tuple[Estimate | None, bool]:
    """Where the curves of one configuration became stable: median over seeds; censored if one still rises."""
    found = [
        plateau(_rising(curve, goal)) for curve in curves if curve.state == "ok" and len(curve.metric) >= 4
    ]
    values = [stable.value for stable, _ in found if stable is not None]
    censored = any(rising for _, rising in found)
    if not values:
        return None, censored
    if len(values) == 1:
        return found[0][0], censored
    middle = estimate(values)
    if middle is None or middle.low is None or middle.high is None:
        return middle, censored
    seen = [
        epoch for curve in curves for epoch in curve.epochs
    ]  # nobody can tell of an epoch before or after
    low, high = max(middle.low, min(seen)), min(middle.high, max(seen))
    return replace(middle, low=low, high=None if censored else high), censored


def _rising(curve: AccuracyCurve, goal: Goal) -> Curve:
    values = curve.metric if goal.rises else tuple(-value for value in curve.metric)
    return Curve(None, curve.epochs, values)


def _noise(group: Launches) -> Estimate | None:
    """The noise scale over all seeds of one configuration."""
    blocks = [found for result in group.results if (found := gradient_blocks(result.workers)) is not None]
    square = [value for block in blocks for value in block.square]
    variance = [value for block in blocks for value in block.variance]
    return noise_scale(square, variance, batch=blocks[0].global_batch) if blocks else None


def _whole(
    groups: Sequence[Launches],
    curves: dict[str, list[AccuracyCurve]],
    goal: Goal,
    found: Sequence[Comparison],
) -> Convergence:
    """Plateau of the first configuration, noise scale of the smallest batch that has one, and the critical batch."""
    first = next((own[0] for g in groups if (own := [c for c in curves[g.point.id] if c.metric])), None)
    noisy = [c for c in found if c.noise_scale is not None]
    noise = min(noisy, key=lambda c: c.global_batch or 0).noise_scale if noisy else None
    needed: dict[int, float] = {}
    for c in found:
        epochs = c.epochs_to_target if goal.target is not None else c.plateau_epoch
        if c.global_batch is not None and epochs is not None and epochs.value > 0:
            # of several rules the best: what a batch needs, not what an untuned rate needs
            needed[c.global_batch] = min(epochs.value, needed.get(c.global_batch, math.inf))
    law = epochs_law([], needed, noise=None if noise is None else noise.value) if needed else None
    stable, censored = plateau(_rising(first, goal)) if first is not None else (None, False)
    return Convergence(stable, censored, noise, critical_batch(noise, law))


def _marks(result: TrialResult) -> tuple[Mark, ...]:
    return next((worker.marks for worker in result.workers if worker.rank == 0), ())


def _reached(value: float, goal: Goal) -> bool:
    if goal.target is None:
        return False
    return value >= goal.target if goal.rises else value <= goal.target


def _fastest_first(c: Comparison) -> tuple[float, int, float]:
    time = c.time_to_target_s.value if c.time_to_target_s is not None else math.inf
    return time, -c.reached, -(c.difference.value if c.difference is not None else 0.0)


def _traits(point: Point) -> list[str]:
    """2 workers, global batch 128, sqrt rule, 1 warm-up epochs, exchange=fp16."""
    varied = dict(point.varied)
    rule, warmup = varied.pop(LR_RULE, None), varied.pop(WARMUP, None)
    parts = [f"{point.workers} worker{'s' if point.workers > 1 else ''}"]
    parts += [f"global batch {point.global_batch}"] if point.global_batch else []
    parts += [point.backend] if point.backend else []
    parts += [f"{rule} rule" if rule != "none" else "no rule"] if rule is not None else []
    parts += [f"warm-up {float(warmup):g}"] if warmup is not None else []
    parts += [f"{flag.lstrip('-')}={value}" for flag, value in varied.items()]
    return parts
