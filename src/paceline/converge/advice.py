"""What trainings to a target amount to: the Verdict, and advice that was measured.

Which rule is best is read from this study's own trainings, at its own batch and budget, never from what is usually said
of a rule. Two configurations whose ratio of times has an interval around 1 are not told apart, and the advice says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from paceline.converge.epochs import accuracy_survives
from paceline.core.stats import ratio
from paceline.core.units import duration_range_text, duration_text, range_text
from paceline.plan.goal import LR_RULE, WARMUP
from paceline.records import Comparison, Convergence, Estimate, Point, Reason, Recommendation, Verdict

__all__ = ["accuracy_advice", "accuracy_verdict", "goal_text"]


def goal_text(found: Convergence) -> str:
    """val_accuracy ≥ 0.97."""
    if found.target is None:
        return str(found.metric)
    return f"{found.metric} {'≥' if found.rises else '≤'} {found.target:g}"


def accuracy_verdict(found: Convergence) -> Verdict:
    """Which configuration came first, how sure that is, and what did not come at all."""
    if found.target is None:
        return _after_epochs(found)
    lost = _lost(found)
    timed = [c for c in found.comparisons if c.time_to_target_s is not None]
    budget = f" within {found.epochs} epochs" if found.epochs else ""
    if not timed:
        best = _best(found.comparisons, rises=found.rises)
        came = f"; the best came to {best.metric.value:.4g} ({best.label})" if best and best.metric else ""
        missed = Reason("target-missed", f"No configuration reached {goal_text(found)}{budget}{came}.")
        return Verdict("no_answer", reasons=(missed,), limits=lost)
    best = timed[0]
    assert best.time_to_target_s is not None
    text = (
        f"Fastest to {goal_text(found)}: {best.label}, in {_time(best.time_to_target_s)} "
        f"({best.reached} of {_seeds(best.seeds)})"
    )
    gain = _gain(found, timed[1], best) if len(timed) > 1 else None
    text += f"; {_lead(gain)} {timed[1].label}" if gain is not None else ""
    tied = gain is not None and gain.low is not None and gain.low <= 1.0 <= (gain.high or gain.low)
    return Verdict(
        "undecided" if tied and timed[1].workers != best.workers else "use",
        workers=best.workers,
        gain=gain,
        points=(best.point,),
        reasons=(Reason("fastest-to-target", f"{text}."),),
        limits=lost,
    )


def accuracy_advice(
    found: Convergence, points: Sequence[Point], *, what: str, data: str | None
) -> tuple[Recommendation, ...]:
    """The fastest configuration, and for every batch that was trained by several rules the one that did best."""
    rest = {
        point.id: tuple((k, v) for k, v in point.varied if k not in (LR_RULE, WARMUP)) for point in points
    }
    where = f"measured on {what}{f' ({data})' if data else ''}"
    groups: dict[object, list[Comparison]] = defaultdict(list)
    for c in found.comparisons:
        groups[(c.workers, c.global_batch, rest.get(c.point))].append(c)
    several = [own for own in groups.values() if len({(c.lr_rule, c.warmup_epochs) for c in own}) > 1]
    advice = [_rule(found, own, where) for own in several]
    timed = [c for c in found.comparisons if c.time_to_target_s is not None]
    if len(found.comparisons) > 1 and timed:
        best = timed[0]
        gain = _gain(found, timed[1], best) if len(timed) > 1 else None
        advice.insert(0, _recommendation("time-to-accuracy", best, gain, _told(found, best), where, found))
    return tuple(recommendation for recommendation in advice if recommendation is not None)


def _rule(found: Convergence, own: Sequence[Comparison], where: str) -> Recommendation | None:
    """The rule that was measured best at one worker count and batch, and what the others did."""
    timed = [c for c in own if c.time_to_target_s is not None]
    if timed:
        best = timed[0]
        gain = _gain(found, timed[1], best) if len(timed) > 1 else None
        lead = f"; {_lead(gain)} {_name(timed[1])}" if gain is not None else ""
        others = "; ".join(_fate(c) for c in own if c.time_to_target_s is None)
        text = f"{_told(found, best)}{lead}{'; ' + others if others else ''}"
    else:
        leading = _best(own, rises=found.rises)
        if leading is None:
            return None
        best, gain = leading, None
        text = f"{_came(leading, found)}, {_rank(found, leading, own)}"
    return _recommendation("lr-rule", best, gain, text, where, found)


def _recommendation(
    goal: str, best: Comparison, gain: Estimate | None, text: str, where: str, found: Convergence
) -> Recommendation:
    budget = f", {found.epochs} epochs" if found.epochs else ""
    condition = f"{where}{budget}, {_seeds(best.seeds)} each"
    return Recommendation(
        goal=goal,
        workers=best.workers,
        per_worker_batch=best.per_worker_batch,
        lr_rule=best.lr_rule,
        gain=gain,
        cost=None,
        condition=f"{condition}; another batch, network or budget may turn it round",
        text=text,
        point=best.point,
    )


def _told(found: Convergence, best: Comparison) -> str:
    time = _time(best.time_to_target_s) if best.time_to_target_s is not None else "unknown time"
    return f"{best.label} reached {goal_text(found)} first: {time}, {best.reached} of {_seeds(best.seeds)}"


def _came(c: Comparison, found: Convergence) -> str:
    best = "unknown" if c.metric is None else range_text(c.metric)
    return f"{c.label}: {found.metric} {best} over {_seeds(c.seeds)}"


def _rank(found: Convergence, best: Comparison, own: Sequence[Comparison]) -> str:
    """The best of how many, which of them its seeds cannot be told from, and which diverged."""
    if len(own) == 1:
        return "the only one"
    others = [c for c in own if c is not best and c.metric is not None]
    close = [c for c in others if not _surely_better(found, best, c)]
    lost = [_fate(c) for c in own if c.diverged]
    told = f"; no clear difference to {', '.join(_name(c) for c in close)}" if close else ", surely"
    return f"the best of {len(own)}{told}{'; ' + '; '.join(lost) if lost else ''}"


def _surely_better(found: Convergence, best: Comparison, other: Comparison) -> bool:
    """Whether the interval of the difference between the best values of their seeds leaves out 0."""
    choose = max if found.rises else min
    here, there = (
        [choose(x.metric) for x in found.curves if x.point == c.point and x.metric] for c in (best, other)
    )
    if min(len(here), len(there)) < 2:
        return False
    difference = accuracy_survives(there, here, margin=0.0).difference
    low, high = difference.low, difference.high
    return low is not None and high is not None and (low > 0 if found.rises else high < 0)


def _fate(c: Comparison) -> str:
    if c.diverged:
        return f"{_name(c)} diverged on {c.diverged} of {_seeds(c.seeds)}"
    if c.failed == c.seeds:
        return f"{_name(c)} failed"
    tried = f" in {duration_text(c.spent_s)}" if c.spent_s is not None else ""
    best = f", it came to {c.metric.value:.4g}" if c.metric is not None else ""
    return f"{_name(c)} reached it on {c.reached} of {_seeds(c.seeds)}{tried}{best}"


def _name(c: Comparison) -> str:
    rule = {"none": "no rule", None: ""}.get(c.lr_rule, f"{c.lr_rule} rule")
    if c.warmup_epochs is None:
        return rule or c.label
    warmup = f"with warm-up {c.warmup_epochs:g}" if c.warmup_epochs else "without warm-up"
    return f"{rule} {warmup}".strip()


def _gain(found: Convergence, slower: Comparison, faster: Comparison) -> Estimate | None:
    """Time of the slower over time of the faster, over the seeds of each that came."""
    times = {
        c.point: [x.time_to_target_s for x in found.curves if x.point == c.point] for c in (slower, faster)
    }
    known = {point: [value for value in own if value is not None] for point, own in times.items()}
    return ratio(known[slower.point], known[faster.point])


def _lead(gain: Estimate) -> str:
    if gain.low is None or gain.high is None:
        return f"{gain.value:.2f}x as fast as, by one seed,"
    if gain.low <= 1.0 <= gain.high:
        return "no clear difference to"
    return f"{range_text(gain, unit='x')} as fast as"


def _lost(found: Convergence) -> tuple[Reason, ...]:
    missed = [c for c in found.comparisons if c.reached < c.seeds]
    diverged = [c for c in missed if c.diverged]
    if not missed:
        return ()
    text = f"{len(missed)} of {len(found.comparisons)} configurations did not reach it on every seed"
    return (Reason("missed-by-some", f"{text}, {len(diverged)} diverged." if diverged else f"{text}."),)


def _after_epochs(found: Convergence) -> Verdict:
    """Without a target: what the metric came to, and where it is worse than the first configuration's."""
    best = _best(found.comparisons, rises=found.rises)
    if best is None:
        return Verdict("no_answer", reasons=(Reason("no-training", "No training was evaluated."),))
    worse = [c for c in found.comparisons if c.survives == "worse"]
    unsure = [c for c in found.comparisons if c.survives == "cannot tell"]
    limits = []
    if worse:
        text = f"Worse than the first configuration at the same epoch: {'; '.join(c.label for c in worse)}."
        limits.append(Reason("accuracy-worse", text))
    if unsure:
        text = f"{len(unsure)} of {len(found.comparisons)} do not differ clearly from the first with these seeds."
        limits.append(Reason("accuracy-undecided", text))
    came = Reason("best-metric", f"Best measured: {_came(best, found)}.")
    return Verdict("use", workers=best.workers, points=(best.point,), reasons=(came,), limits=tuple(limits))


def _best(comparisons: Sequence[Comparison], *, rises: bool) -> Comparison | None:
    known = [c for c in comparisons if c.metric is not None]
    sign = 1.0 if rises else -1.0
    return max(known, key=lambda c: sign * (c.metric.value if c.metric else 0.0), default=None)


def _time(time: Estimate) -> str:
    if time.low is not None and time.high is None:
        return f"{duration_text(time.value)} (some seeds never)"
    return duration_range_text(time)


def _seeds(count: int) -> str:
    return f"{count} seed{'s' if count != 1 else ''}"
