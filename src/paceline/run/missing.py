"""What is still to be run, and what it will cost.

missing    planned, not complete, of a point that is neither settled nor failing for one cause
settled    at least 3 launches, and half the interval of step_s below tight_ratio of it
price      wall seconds of the trials of the same point, else of the nearest count, else an assumption
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from statistics import median

from paceline.core.stats import estimate, half_width_ratio
from paceline.measure.split import split
from paceline.plan.trials import assumed_wall_s
from paceline.records import Estimate, Plan, Point, Study, Trial, TrialResult

__all__ = ["device_s", "expected_wall_s", "given_up", "missing", "settled", "step_estimate", "to_keep"]

_LEAST_LAUNCHES = 3
_MOST_FAILURES = 2


def missing(plan: Plan, results: Sequence[TrialResult], study: Study) -> tuple[Trial, ...]:
    """The trials still to be run, in the plan's order."""
    done = {result.trial.id for result in results}
    closed = {p.id for p in plan.points if settled(p, results, study) or given_up(p, results) is not None}
    return tuple(trial for trial in plan.trials if trial.id not in done and trial.point.id not in closed)


def to_keep(results: Sequence[TrialResult], *, retry_failed: bool) -> tuple[TrialResult, ...]:
    """The results that stand: all, or those that ended well where the others are to be repeated."""
    return tuple(result for result in results if result.state == "ok" or not retry_failed)


def settled(point: Point, results: Sequence[TrialResult], study: Study) -> bool:
    """Whether more launches of this point would say little more; a seed always does."""
    if study.goal is not None:
        return False
    step_s = step_estimate(point, results, study)
    if step_s is None or step_s.n < _LEAST_LAUNCHES:
        return False
    width = half_width_ratio(step_s)
    return width is not None and width < study.tight_ratio


def given_up(point: Point, results: Sequence[TrialResult]) -> str | None:
    """The reason why this point is not tried again: it failed twice for the same cause."""
    failed = [r.reason or r.state for r in results if r.trial.point.id == point.id and r.state != "ok"]
    causes = Counter(_cause(reason) for reason in failed)
    return next((reason for reason in failed if causes[_cause(reason)] >= _MOST_FAILURES), None)


def step_estimate(point: Point, results: Sequence[TrialResult], study: Study) -> Estimate | None:
    """The step time of a point over its launches so far."""
    own = [result for result in results if result.trial.point.id == point.id and result.state == "ok"]
    launches = [split(result, warmup=study.warmup, steps=study.steps) for result in own]
    return estimate([launch.step_s for launch in launches if launch is not None])


def expected_wall_s(point: Point, results: Sequence[TrialResult], study: Study) -> float:
    """How long the next trial of this point will take, as far as is known; one cut short by a fault tells little."""
    known = [result for result in results if result.state == "ok"] or results
    own = [result.wall_s for result in known if result.trial.point.id == point.id]
    if own:
        return median(own)
    if known:
        nearest = min(abs(result.trial.point.workers - point.workers) for result in known)
        return median(r.wall_s for r in known if abs(r.trial.point.workers - point.workers) == nearest)
    return assumed_wall_s(study, point)


def device_s(results: Sequence[TrialResult]) -> float:
    """Device seconds spent: workers × wall seconds of every trial, also of failed ones."""
    return sum(result.trial.point.workers * result.wall_s for result in results)


def _cause(reason: str) -> str:
    """A reason without its numbers: the same fault after 12 and after 14 steps is the same cause."""
    return re.sub(r"\d+(\.\d+)?", "#", reason)
