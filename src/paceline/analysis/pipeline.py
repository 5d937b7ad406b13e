"""The one way from evidence to an Analysis, for studies and tables alike.

    profiles -> series -> findings -> outlook -> verdict -> Analysis

study.py and table.py bring the evidence. What it means is said here, once, and nothing is added afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from paceline.analysis.evidence import with_probes
from paceline.analysis.memory import memory_outlook
from paceline.analysis.outlook import Outlook, outlook
from paceline.analysis.question import Ask, Cluster
from paceline.core.errors import PacelineError
from paceline.decide.brief import brief
from paceline.decide.thresholds import thresholds
from paceline.decide.verdict import NO_TRAINING, verdict
from paceline.links.exchange import exchange_findings
from paceline.links.probed import Probed
from paceline.measure.series import headline_series
from paceline.records import (
    Analysis,
    Convergence,
    Course,
    Failure,
    Finding,
    LargestBatch,
    Profile,
    Recommendation,
    Refusal,
    TimeKind,
    Verdict,
    worst_first,
)

__all__ = ["Evidence", "Trained", "analysed"]


@dataclass(frozen=True, slots=True)
class Trained:
    """What trainings to an accuracy say: it comes before what their steps say."""

    verdict: Verdict
    convergence: Convergence
    advice: tuple[Recommendation, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was measured, and what the checks found."""

    profiles: tuple[Profile, ...]
    findings: tuple[Finding, ...]
    kind: TimeKind = "step"
    source: Mapping[str, object] = field(default_factory=dict)  # provenance, for the report
    failures: tuple[Failure, ...] = ()
    courses: tuple[Course, ...] = ()
    probed: Probed = field(default_factory=Probed)
    trained: Trained | None = None
    memory_limit_bytes: int | None = None  # that every worker was measured under
    largest_batches: tuple[LargestBatch, ...] = ()  # that were found to fit


def analysed(evidence: Evidence, *, ask: Ask, cluster: Cluster) -> Analysis:
    """Everything that follows from the evidence."""
    profiles, probed, trained = evidence.profiles, evidence.probed, evidence.trained
    found = _outlook(evidence, ask, with_probes(cluster, probed))
    findings = worst_first(
        (*evidence.findings, *found.findings, *probed.findings, *exchange_findings(profiles, probed.links))
    )
    answer = verdict(profiles, findings, projections=found.projections, advice=found.recommendations)
    base = headline_series(_with_speed(profiles))
    convergence = found.convergence if trained is None else trained.convergence
    advice = found.recommendations if trained is None else (*trained.advice, *found.recommendations)
    return Analysis(
        verdict=answer if trained is None else replace(trained.verdict, unit=answer.unit),
        points=profiles,
        findings=findings,
        brief=brief(
            answer,
            profiles,
            findings,
            projections=found.projections,
            refusals=found.refusals,
            advice=advice,
            convergence=convergence,
        ),
        baseline=None if base is None else base.baseline.point.id,
        source=evidence.source,
        fit=found.fit,
        projections=found.projections,
        refusals=found.refusals,
        recommendations=advice,
        convergence=convergence,
        thresholds=thresholds(profiles),
        failures=evidence.failures,
        decision=found.decision,
        links=probed.links,
        devices=probed.devices,
        courses=evidence.courses,
        memory=memory_outlook(
            profiles,
            workers=_ahead(profiles, ask),
            limit_bytes=ask.device_bytes or evidence.memory_limit_bytes,
        ),
        largest_batches=evidence.largest_batches,
    )


def _ahead(profiles: Sequence[Profile], ask: Ask) -> list[int]:
    """Counts beyond those that were measured: as asked, else twice and four times the largest."""
    most = max((profile.point.workers for profile in profiles), default=1)
    asked = ask.project_to or tuple(setting.workers for setting, _ in ask.at)
    return sorted(set(asked or (2 * most, 4 * most)))


def _with_speed(profiles: Sequence[Profile]) -> list[Profile]:
    """Those whose speed-up is known; else those that were timed."""
    known = [p for p in profiles if p.state == "ok" and p.speedup is not None]
    return known or [p for p in profiles if p.step_s is not None]


def _outlook(evidence: Evidence, ask: Ask, cluster: Cluster) -> Outlook:
    """Fit, projections and advice; a fit that fails becomes a doubt and never costs what was measured."""
    unsound = next((f for f in evidence.findings if f.id in NO_TRAINING), None)
    if unsound is not None:
        return Outlook(None, (), (_refused(unsound, evidence.profiles),), (), None, ())
    try:
        return outlook(evidence.profiles, evidence.kind, cluster=cluster, ask=ask)
    except (PacelineError, ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        doubt = Finding(
            "no-projection",
            "doubt",
            f"nothing could be projected from these measurements: {error}",
            hint="measure more counts, or --repeats; what was measured stands",
        )
        return Outlook(None, (), (), (), None, (doubt,))


def _refused(finding: Finding, profiles: Sequence[Profile]) -> Refusal:
    """Nothing is projected from measurements that are not of one training on all workers."""
    largest = max(profile.point.workers for profile in profiles)
    return Refusal(
        2 * largest,
        "unsound",
        f"the measurements are not those of one training: {finding.text}",
        finding.following or "mend the script, then measure again",
    )
