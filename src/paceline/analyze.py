"""The whole pure pipeline for a study: results -> launches -> curve -> findings -> answers -> verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from paceline.accuracy import accuracy_convergence
from paceline.accuracy_advice import accuracy_advice, accuracy_verdict
from paceline.answers import Answers, Ask, Cluster, answers
from paceline.check import study_findings, worst_first
from paceline.check_seeds import seed_findings
from paceline.cluster_seen import with_seen
from paceline.config import command_text
from paceline.curve import Launches, curve, launches
from paceline.errors import PacelineError
from paceline.plan import plan_study
from paceline.records import Analysis, Failure, Finding, Goal, Profile, Refusal, Study, TrialResult
from paceline.telemetry_course import courses
from paceline.verdict import verdict, with_outlook
from paceline.verdict_thresholds import thresholds

__all__ = ["study_analysis", "with_measured_power", "with_measured_samples"]

_UNSOUND = {"no-exchange", "replicas-differ"}  # workers that trained apart time something else
_NOTHING = Answers(None, (), (), (), None, ())


def study_analysis(
    study: Study,
    results: Sequence[TrialResult],
    source: Mapping[str, object],
    *,
    ask: Ask | None = None,
    cluster: Cluster | None = None,
    preflight: Sequence[Finding] = (),
) -> Analysis:
    """Everything that the Trials of a Study say. `source`: where they come from, for the report's provenance.

    `preflight`: what a look at the nodes said before the first trial.
    """
    groups = launches(plan_study(study).points, results, warmup=study.warmup, steps=study.steps)
    seen = with_seen(cluster, results)
    profiles = _with_backend(curve(groups), seen.backend)
    findings = study_findings(groups, profiles)
    asked = with_measured_samples(with_measured_power(ask or Ask(), profiles), results, findings)
    found = _answers(profiles, findings, asked, seen)
    findings = (*worst_first((*findings, *_still_open(preflight, findings))), *found.findings)
    analysis = Analysis(
        verdict=with_outlook(verdict(profiles, findings, found.projections), found.recommendations, profiles),
        points=profiles,
        findings=findings,
        baseline=_baseline(profiles),
        source=source,
        fit=found.fit,
        projections=found.projections,
        refusals=found.refusals,
        recommendations=found.recommendations,
        convergence=found.convergence,
        decision=found.decision,
        thresholds=thresholds(profiles),
        failures=tuple(_failure(result) for result in results if result.state != "ok"),
        courses=courses(results),
    )
    return analysis if study.goal is None else _with_accuracy(analysis, study, study.goal, groups)


def _with_accuracy(analysis: Analysis, study: Study, goal: Goal, groups: Sequence[Launches]) -> Analysis:
    """The same where every trial was a training: what it reached, and when, comes first."""
    found = accuracy_convergence(goal, groups)
    if found is None and not any(result.state == "ok" for group in groups for result in group.results):
        return analysis
    if found is None:
        unseen = Finding(
            "no-metric",
            "doubt",
            f"no training said what it reached{f' ({goal.metric!r} was asked for)' if goal.metric else ''}",
            hint="mark it with paceline_agent.mark, or name a pattern of what is printed: --metric 'acc=([0-9.]+)'",
        )
        return replace(analysis, findings=(*analysis.findings, unseen))
    points = [group.point for group in groups]
    told = tuple(f for f in analysis.findings if f.id != "lr-unscaled")  # that is about timing alone
    advice = accuracy_advice(found, points, what=command_text(study.workload), data=goal.data)
    return replace(
        analysis,
        verdict=accuracy_verdict(found),
        findings=worst_first((*told, *seed_findings(found.curves))),
        convergence=found,
        recommendations=(*advice, *analysis.recommendations),
    )


def with_measured_power(ask: Ask, profiles: Sequence[Profile]) -> Ask:
    """The question with the power of one worker's device as it was sampled, unless a figure was given."""
    watts = [p.power_watts.value / p.point.workers for p in profiles if p.power_watts is not None]
    if ask.prices.worker_watts is not None or not watts:
        return ask
    return replace(ask, prices=replace(ask.prices, worker_watts=median(watts)))


def with_measured_samples(ask: Ask, results: Sequence[TrialResult], findings: Sequence[Finding]) -> Ask:
    """The question with the size of the data set as the loaders saw it, so that advice is about an epoch.

    Only where all workers of all trials saw one size, and it is not a worker's share: a trial on one worker saw it
    too, or a sampler dealt it out."""
    if ask.samples is not None or any(finding.id == "same-data" for finding in findings):
        return ask
    workers = [worker for result in results if result.state == "ok" for worker in result.workers]
    loaders = [info if isinstance(info := w.manifest.get("loader"), Mapping) else {} for w in workers]
    sizes = {info.get("dataset_size") for info in loaders}
    whole = any(w.world == 1 for w in workers) or all("Distributed" in str(i.get("sampler")) for i in loaders)
    size = sizes.pop() if len(sizes) == 1 else None
    return replace(ask, samples=size) if whole and isinstance(size, int) and size > 0 else ask


def _still_open(preflight: Sequence[Finding], findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """What preflight said and the trials have not said better: a void let no trial run, cores were counted since."""
    counted = any(finding.id == "more-workers-than-cores" for finding in findings)
    return tuple(f for f in preflight if f.level != "void" and not (counted and f.id == "cores-too-few"))


def _with_backend(profiles: Sequence[Profile], seen: str | None) -> tuple[Profile, ...]:
    """The points with the backend that their workers chose themselves, where the study asked for none."""
    return tuple(
        replace(profile, point=replace(profile.point, backend=profile.point.backend or seen))
        for profile in profiles
    )


def _answers(profiles: Sequence[Profile], findings: Sequence[Finding], ask: Ask, cluster: Cluster) -> Answers:
    """Fit, projections and advice; a fit that fails becomes a doubt and never costs the study what was measured."""
    measured = [profile for profile in profiles if profile.step_s is not None]
    if not measured:
        return _NOTHING
    unsound = next((f for f in findings if f.level == "void" or f.id in _UNSOUND), None)
    if unsound is not None:
        return _unsound(unsound, max(profile.point.workers for profile in measured))
    try:
        return answers(profiles, "step", cluster=cluster, ask=ask)
    except (PacelineError, ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        doubt = Finding(
            "no-projection",
            "doubt",
            f"nothing could be projected from these measurements: {error}",
            hint="measure more counts or launches; the measured points stand",
        )
        return Answers(None, (), (), (), None, (doubt,))


def _unsound(finding: Finding, largest: int) -> Answers:
    """Nothing is projected from measurements that are not of one training on all workers."""
    refusal = Refusal(
        2 * largest,
        "unsound",
        f"the measurements are not those of one training: {finding.message}",
        finding.hint or "mend the script, then measure again",
    )
    return Answers(None, (), (refusal,), (), None, ())


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
