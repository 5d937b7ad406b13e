"""The whole pure pipeline for a study, on one screen: results -> launches -> curve -> findings -> verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paceline.check import study_findings
from paceline.curve import curve, launches
from paceline.plan import plan_study
from paceline.records import Analysis, Failure, Profile, Study, TrialResult
from paceline.verdict import verdict
from paceline.verdict_thresholds import thresholds

__all__ = ["study_analysis"]


def study_analysis(study: Study, results: Sequence[TrialResult], source: Mapping[str, object]) -> Analysis:
    """Everything that the Trials of a Study say. `source`: where they come from, for the report's provenance."""
    groups = launches(plan_study(study).points, results, warmup=study.warmup, steps=study.steps)
    profiles = curve(groups)
    findings = study_findings(groups, profiles)
    return Analysis(
        verdict=verdict(profiles, findings),
        points=profiles,
        findings=findings,
        baseline=_baseline(profiles),
        source=source,
        thresholds=thresholds(profiles),
        failures=tuple(_failure(result) for result in results if result.state != "ok"),
    )


def _failure(result: TrialResult) -> Failure:
    return Failure(
        trial=result.trial.id,
        workers=result.trial.point.workers,
        state=result.state,
        reason=result.reason,
        wall_s=result.wall_s,
        log_tail=result.log_tail,
    )


def _baseline(profiles: Sequence[Profile]) -> str | None:
    measured = [p for p in profiles if p.step_s is not None]
    return min(measured, key=lambda p: p.point.workers).point.id if measured else None
