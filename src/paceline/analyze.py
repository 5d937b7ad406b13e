"""The whole pure pipeline for a study, on one screen: results -> launches -> curve -> findings -> verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paceline.check import study_findings
from paceline.curve import curve, launches
from paceline.records import Analysis, Point, Profile, Study, TrialResult
from paceline.verdict import verdict

__all__ = ["study_analysis"]


def study_analysis(
    study: Study, points: Sequence[Point], results: Sequence[TrialResult], source: Mapping[str, object]
) -> Analysis:
    """Everything that the Trials of a Study say. `points`: those of its plan, in order."""
    groups = launches(points, results, warmup=study.warmup, steps=study.steps)
    profiles = curve(groups)
    findings = study_findings(groups, profiles)
    return Analysis(
        verdict=verdict(profiles, findings),
        points=profiles,
        findings=findings,
        baseline=_baseline(profiles),
        source=source,
    )


def _baseline(profiles: Sequence[Profile]) -> str | None:
    measured = [p for p in profiles if p.step_s is not None]
    return min(measured, key=lambda p: p.point.workers).point.id if measured else None
