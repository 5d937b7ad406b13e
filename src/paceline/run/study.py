"""A study, from what its folder holds to what is missing: one desk, one trial at a time, each committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Protocol

from paceline.analysis.memory import unfit
from paceline.records import Plan, Point, Study, Trial, TrialResult
from paceline.run.missing import device_s, expected_wall_s, missing
from paceline.run.trial import Bench, run_trial
from paceline.store.atomic import make_folder, write_json
from paceline.store.git_state import note_git_state
from paceline.store.lock import locked
from paceline.store.paths import StudyFolder
from paceline.store.study_file import write_study
from paceline.store.trial_files import read_results, remove_incomplete, set_aside_failed
from paceline.store.worker_files import Heartbeat, heartbeats

__all__ = ["Listener", "Measured", "Progress", "Silent", "progress_of", "run_study"]


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a study stands between two trials."""

    plan: Plan
    results: tuple[TrialResult, ...]
    missing: tuple[Trial, ...]
    eta_s: float
    spent_device_s: float
    left_out: frozenset[str] = (
        frozenset()
    )  # points that cannot run on these nodes; nothing of them is missing


@dataclass(frozen=True, slots=True)
class Measured:
    """What a study has measured, before and now; and why trials were left out (the budget, nodes), where some were."""

    results: tuple[TrialResult, ...]
    stopped: str | None = None
    interrupted: bool = False


class Listener(Protocol):
    """Hears what happens, to show it."""

    def started(self, trial: Trial, progress: Progress) -> None: ...

    def stepped(self, trial: Trial, beats: tuple[Heartbeat, ...]) -> None: ...

    def ended(self, result: TrialResult, progress: Progress) -> None: ...

    def skipped(self, point: Point, why: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Silent:
    """Hears and says nothing."""

    def started(self, trial: Trial, progress: Progress) -> None:
        return None

    def stepped(self, trial: Trial, beats: tuple[Heartbeat, ...]) -> None:
        return None

    def ended(self, result: TrialResult, progress: Progress) -> None:
        return None

    def skipped(self, point: Point, why: str) -> None:
        return None


def run_study(
    folder: StudyFolder,
    study: Study,
    plan: Plan,
    *,
    bench: Bench,
    listener: Listener,
    known: Sequence[TrialResult] = (),
    retry_failed: bool = False,
) -> Measured:
    """Run what is missing. `known`: results that were read already.

    Whatever ends this (Ctrl-C, kill -9, a full disk), committed trials stay and the next call runs the rest.
    """
    make_folder(folder.trials)
    with locked(folder):
        bench.launcher.end_leftovers(folder.tag)
        remove_incomplete(folder)
        results = read_results(folder, known)
        if retry_failed:
            results = set_aside_failed(folder, results)
        write_study(folder.study_toml, study)
        write_json(folder.plan_json, asdict(plan))
        if missing(plan, results, study):
            note_git_state(folder, study)
        try:
            unfit_points: dict[str, str] = {}
            while todo := [t for t in missing(plan, results, study) if t.point.id not in unfit_points]:
                if why := unfit(study, todo[0].point, results):
                    unfit_points[todo[0].point.id] = why
                    listener.skipped(todo[0].point, why)
                    continue
                progress = progress_of(plan, results, study, left_out=bench.left_out)
                trial, why = _next(todo, progress, study, bench)
                if trial is None:
                    return Measured(results, why)
                listener.started(trial, progress)
                result = run_trial(
                    folder, study, trial, bench=bench, stepped=partial(listener.stepped, trial)
                )
                results = (*results, result)
                progress = progress_of(plan, results, study, left_out=bench.left_out)
                listener.ended(result, progress)
                if progress.missing and not study.keep_going and _died_at_once(folder, results):
                    return Measured(results, _first_died(result, len(progress.missing)))
        except KeyboardInterrupt:
            return Measured(read_results(folder, results), interrupted=True)
    return Measured(results)


def _died_at_once(folder: StudyFolder, results: Sequence[TrialResult]) -> bool:
    """Whether no run has taken a step yet and the last one died: the others would, in turn."""
    if results[-1].state not in ("crashed", "short"):
        return False
    return not any(_stepped(folder, result) for result in results)


def _stepped(folder: StudyFolder, result: TrialResult) -> bool:
    """Whether any worker took a step, even one of the warm-up, which leaves no sample."""
    sampled = any(worker.samples for worker in result.workers)
    return sampled or any(beat.steps for beat in heartbeats(folder.trial(result.trial.id)))


def _first_died(result: TrialResult, left: int) -> str:
    run = "the only run left is" if left == 1 else f"the other {left} runs are"
    return (
        f"at once: {result.trial.id} ended before its first step, so {run} left out (--keep-going runs them)"
    )


def _next(
    todo: Sequence[Trial], progress: Progress, study: Study, bench: Bench
) -> tuple[Trial | None, str | None]:
    """The first trial that can be started now, or None and why the study stops here."""
    trial, why = _startable(todo, bench)
    left = f"{len(todo)} run{'' if len(todo) == 1 else 's'} left out"
    if trial is None:
        return None, f"before {why}; {left}"
    price = trial.point.workers * expected_wall_s(trial.point, progress.results, study)
    if study.budget_device_s is not None and progress.spent_device_s + price > study.budget_device_s:
        spent = f"{progress.spent_device_s:.0f} of {study.budget_device_s:.0f} device seconds are spent"
        return None, f"by the budget: {spent} and run {trial.id} would take about {price:.0f}; {left}"
    return trial, None


def _startable(todo: Sequence[Trial], bench: Bench) -> tuple[Trial | None, str]:
    """The first trial that the nodes that are here can run, or None and why the first of them cannot."""
    why = ""
    for trial in todo:
        reason = bench.refusal(trial) if bench.refusal is not None else None
        if reason is None:
            return trial, ""
        why = why or f"run {trial.id}, which {reason}"
    return None, why


def progress_of(
    plan: Plan, results: tuple[TrialResult, ...], study: Study, *, left_out: frozenset[str]
) -> Progress:
    """Where a study stands that has these results, and of which these points are not to be measured."""
    todo = tuple(trial for trial in missing(plan, results, study) if trial.point.id not in left_out)
    eta_s = sum(expected_wall_s(trial.point, results, study) for trial in todo)
    return Progress(plan, results, todo, eta_s, device_s(results), left_out)
