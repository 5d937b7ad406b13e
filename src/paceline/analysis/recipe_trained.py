"""What trainings answer to a recipe: the metric and what it is judged beside, plateau, turnaround, the rule.

turnaround    launch to end of a trial = training (first step to last evaluation) + start-up and end
stable after  seconds from the first step to the plateau epoch, over seeds
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paceline.analysis.recipe import Recipe
from paceline.core.stats import estimate, ratio
from paceline.core.units import duration_range_text, duration_text, percent_text, range_text
from paceline.records import AccuracyCurve, Analysis, Comparison, Convergence, Estimate

__all__ = ["fastest", "metric", "plateau", "rule", "turnaround"]

_VERDICTS = {
    "survives": "the same within the margin",
    "worse": "surely",
    "cannot tell": "these seeds cannot tell",
}
_JUDGED, _HELD_OUT = "val_", "test_"
_MOSTLY = 0.9  # of the time from start to end, where a data set is large enough for workers to matter


def metric(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    """The metric of every configuration, against the first, and against the baselines that the workload marks."""
    found = analysis.convergence
    if found is None:
        return
    for c in _by_workers(found):
        best = "unknown" if c.metric is None else range_text(c.metric)
        against = ""
        if c.difference is not None:
            against = f"; {_better(c.difference)} than the first after epoch {c.epoch:g}: {_verdict(c)}"
        lost = f"; {c.diverged} of {c.seeds} diverged" if c.diverged else ""
        also = "".join(f", last {n} {range_text(v)}" for n, v in c.beside if n.startswith(_JUDGED))
        yield f"{c.label}: best {found.metric} {best}{also}{against}{lost}"
    yield from _baselines(found)
    yield from _held_out(found)


def plateau(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    """The epoch from which each configuration is stable; a lower bound where it still got better."""
    for c in _by_workers(analysis.convergence):
        if c.plateau_epoch is None:
            yield f"{c.label}: too few epochs to say"
        elif c.plateau_censored:
            yield f"{c.label}: still getting better after epoch {_last_epoch(analysis.convergence, c):g}"
        else:
            yield f"{c.label}: epoch {_epoch_text(c.plateau_epoch)}"


def turnaround(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    """From launch to end, what of it is training, and how much data would make training most of it."""
    found = analysis.convergence
    last: tuple[str, float, float] | None = None
    for c in _by_workers(found):
        own = [x for x in _curves(found, c) if x.trial_s is not None and x.wall_s]
        whole, trained = [x.trial_s or 0.0 for x in own], [x.wall_s[-1] for x in own]
        total, training = estimate(whole), estimate(trained)
        each = estimate([x.wall_s[-1] / x.epochs[-1] for x in own])
        if total is None or training is None or each is None:
            continue
        last = (c.label, sum(whole), sum(trained))
        yield (
            f"{c.label}: {duration_range_text(total)} from start to end; training {duration_text(training.value)}, "
            f"{duration_text(each.value)} an epoch"
        )
    if last is not None and last[2] > 0:
        label, total_s, training_s = last
        times = _MOSTLY / (1 - _MOSTLY) * (total_s - training_s) / training_s
        more = (
            f"; with {times:.3g} times the data it would be {_MOSTLY:.0%}, if the rest stayed"
            if times > 1
            else ""
        )
        yield (
            f"training was {percent_text(training_s / total_s)} of that at {label}: "
            f"more workers shorten this part only{more}"
        )


def fastest(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    """Seconds of training until the metric was stable; the first, and whether it can be told from the second."""
    found = analysis.convergence
    times: list[tuple[str, list[float]]] = []
    for c in _by_workers(found):
        if c.plateau_epoch is None:
            continue
        end = _last_epoch(found, c) if c.plateau_censored else c.plateau_epoch.value
        reached = [x.wall_s[-1] * end / x.epochs[-1] for x in _curves(found, c) if x.wall_s]
        time = estimate(reached)
        if time is None:
            continue
        if c.plateau_censored:
            yield f"{c.label}: not stable in {duration_text(time.value)}"
        else:
            yield f"{c.label}: {duration_range_text(time)} of training"
            times.append((c.label, reached))
    times.sort(key=lambda one: sorted(one[1])[len(one[1]) // 2])
    if len(times) > 1 and (lead := ratio(times[1][1], times[0][1])) is not None:
        apart = lead.low is not None and lead.low > 1.0
        yield f"first: {times[0][0]}" if apart else f"{times[0][0]} and {times[1][0]} do not differ clearly"


def rule(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    """The rule that did best at each batch that was trained by several, with its condition once."""
    advice = [r for r in analysis.recommendations if r.goal == "lr-rule"]
    yield from (r.text for r in advice)
    yield from (f"({condition})" for condition in dict.fromkeys(r.condition for r in advice))


def _baselines(found: Convergence) -> Iterator[str]:
    """What needs no network: metrics of the same kind that were marked beside it, and who is better than all."""
    kind = (found.metric or "").rpartition("_")[2]
    known = found.comparisons[0].beside if found.comparisons else ()
    others = [
        (n, v) for n, v in known if n.rpartition("_")[2] == kind and not n.startswith((_JUDGED, _HELD_OUT))
    ]
    if not others:
        return
    told = ", ".join(f"{name} {range_text(value)}" for name, value in others)
    level = [value.value for _, value in others]
    best = max(level) if found.rises else min(level)
    good = [one.label for one in _by_workers(found) if _beats(one.metric, best, rises=found.rises)]
    yield f"to beat: {told}; better than each on the data that judge every epoch: {'; '.join(good) or 'none'}"


def _held_out(found: Convergence) -> Iterator[str]:
    """What nobody looked at before the end; the baselines of those data stand beside."""
    for c in _by_workers(found):
        if judged := [f"{n} {range_text(v)}" for n, v in c.beside if n.startswith(_HELD_OUT)]:
            yield f"{c.label}, held out and judged once: {', '.join(judged)}"


def _beats(value: Estimate | None, level: float, *, rises: bool) -> bool:
    if value is None or value.low is None or value.high is None:
        return False
    return value.low > level if rises else value.high < level


def _by_workers(found: Convergence | None) -> list[Comparison]:
    """Few workers before many; at each count the one that all are compared with first."""
    if found is None:
        return []
    ordered = sorted(
        found.comparisons, key=lambda c: (c.workers, c.global_batch or 0, c.difference is not None)
    )
    once: dict[str, Comparison] = {}  # a setting that starts a weak and a strong series is trained once
    for one in ordered:
        once.setdefault(one.label, one)
    return list(once.values())


def _curves(found: Convergence | None, c: Comparison) -> Sequence[AccuracyCurve]:
    return [x for x in found.curves if x.point == c.point and x.state == "ok"] if found is not None else []


def _last_epoch(found: Convergence | None, c: Comparison) -> float:
    ends = [x.epochs[-1] for x in _curves(found, c) if x.epochs]
    return max(ends, default=c.plateau_epoch.value if c.plateau_epoch is not None else 0.0)


def _epoch_text(epoch: Estimate) -> str:
    if epoch.low is None or epoch.high is None or f"{epoch.low:.0f}" == f"{epoch.high:.0f}":
        return f"{epoch.value:g}"
    return f"{epoch.value:g} ({epoch.low:.0f}-{epoch.high:.0f})"


def _verdict(c: Comparison) -> str:
    if c.difference is not None and c.difference.low is not None and c.difference.low > 0:
        return "surely"
    return _VERDICTS[c.survives or "cannot tell"]


def _better(difference: Estimate) -> str:
    """0.0870 (0.0315 to 0.1425) worse."""
    sign, word = (1.0, "better") if difference.value >= 0 else (-1.0, "worse")
    if difference.low is None or difference.high is None:
        return f"{sign * difference.value:.4f} {word}"
    low, high = sorted((sign * difference.low, sign * difference.high))
    return f"{sign * difference.value:.4f} ({low:.4f} to {high:.4f}) {word}"
