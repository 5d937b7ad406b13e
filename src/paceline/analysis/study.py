"""The Trials of a Study -> its evidence -> the Analysis: results -> launches -> profiles, and what the checks say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from paceline.analysis.machines import unit_seen, with_seen
from paceline.analysis.memory import largest_batches, unfit
from paceline.analysis.pipeline import Evidence, Trained, analysed
from paceline.analysis.question import Ask, Cluster
from paceline.analysis.recipe import Recipe
from paceline.analysis.recipe_answers import learnt
from paceline.check.seeds import seed_findings
from paceline.check.study import study_findings
from paceline.converge.advice import accuracy_advice, accuracy_verdict
from paceline.converge.comparison import accuracy_convergence
from paceline.links.probed import Probed
from paceline.measure.course import courses
from paceline.measure.mfu import Rows, with_mfu
from paceline.measure.profiles import Launches, curve, launches
from paceline.plan.config import command_text
from paceline.plan.trials import points_of
from paceline.records import Analysis, Failure, Finding, Goal, Point, Profile, Study, TrialResult

__all__ = ["study_analysis", "with_measured_power", "with_measured_samples"]


def study_analysis(
    study: Study,
    results: Sequence[TrialResult],
    source: Mapping[str, object],
    *,
    ask: Ask | None = None,
    cluster: Cluster | None = None,
    said: Sequence[Finding] = (),
    probed: Probed | None = None,
    recipe: Recipe | None = None,
    gpus: Rows | None = None,
) -> Analysis:
    """Everything that the Trials of a Study say. `source`: where they come from, for the report's provenance.

    `said`: what preflight and whoever read the folder found. `recipe`: whose questions are to be answered.
    `gpus`: what devices can do at best, as shipped.
    """
    groups = launches(_points(study, results), results, warmup=study.warmup, steps=study.steps)
    seen = with_seen(cluster, results)
    named = tuple(replace(profile, unit=unit_seen(results)) for profile in curve(groups))
    profiles = with_mfu(_with_backend(named, seen.backend), groups, gpus or {})
    profiles = tuple(_told_why(study, profile, results) for profile in profiles)
    findings = study_findings(groups, profiles)
    trained, of_seeds = (None, ()) if study.goal is None else _trained(study, study.goal, groups)
    if trained is not None:
        findings = tuple(f for f in findings if f.id != "lr-unscaled")  # that is about timing alone
    evidence = Evidence(
        profiles,
        (*findings, *of_seeds, *_still_open(said, findings)),
        source=source,
        failures=tuple(_failure(result) for result in results if result.state != "ok"),
        courses=courses(results),
        probed=probed or Probed(),
        trained=trained,
        memory_limit_bytes=study.memory_limit_bytes,
        largest_batches=largest_batches(study, results),
    )
    wanted = with_measured_samples(
        with_measured_power(_with_projection(ask or Ask(), recipe), profiles), results, findings
    )
    analysis = analysed(evidence, ask=wanted, cluster=seen)
    return analysis if recipe is None else replace(analysis, answers=learnt(recipe, analysis, study))


def _with_projection(ask: Ask, recipe: Recipe | None) -> Ask:
    """The question with the counts that a recipe wants projected, unless others are asked for."""
    if recipe is None or not recipe.project or ask.at or ask.project_to is not None:
        return ask
    return replace(ask, project_to=recipe.project)


def _trained(
    study: Study, goal: Goal, groups: Sequence[Launches]
) -> tuple[Trained | None, tuple[Finding, ...]]:
    """What trainings reached, and when; and what is to be said of them."""
    found = accuracy_convergence(goal, groups)
    if found is None and not any(result.state == "ok" for group in groups for result in group.results):
        return None, ()
    if found is None:
        unseen = Finding(
            "no-metric",
            "doubt",
            f"no training said what it reached{f' ({goal.metric!r} was asked for)' if goal.metric else ''}",
            hint="mark it with paceline_agent.mark, or name a pattern of what is printed: --metric 'acc=([0-9.]+)'",
        )
        return None, (unseen,)
    points = [group.point for group in groups]
    advice = accuracy_advice(found, points, what=command_text(study.workload), data=goal.data)
    return Trained(accuracy_verdict(found), found, advice), tuple(seed_findings(found.curves))


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


def _points(study: Study, results: Sequence[TrialResult]) -> tuple[Point, ...]:
    """The settings of the study; where batches are searched, those that the search came by."""
    run = {result.trial.point.launched_as for result in results}
    return tuple(p for p in points_of(study) if p.launched_as in run or not study.find_batch)


def _told_why(study: Study, profile: Profile, results: Sequence[TrialResult]) -> Profile:
    """What was not run because it does not fit says so."""
    why = unfit(study, profile.point, results) if profile.state == "cancelled" else None
    return profile if why is None else replace(profile, reason=f"not run, it does not fit: {why}")


def _still_open(said: Sequence[Finding], findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """What preflight said and the trials have not said better: a void let no trial run, cores were counted since."""
    counted = any(finding.id == "more-workers-than-cores" for finding in findings)
    return tuple(f for f in said if f.level != "void" and not (counted and f.id == "cores-too-few"))


def _with_backend(profiles: Sequence[Profile], seen: str | None) -> tuple[Profile, ...]:
    """The points with the backend that their workers chose themselves, where the study asked for none."""
    return tuple(
        replace(profile, point=replace(profile.point, backend=profile.point.backend or seen))
        for profile in profiles
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
