"""A study, from what its folder holds to what is missing: one desk, one trial at a time, each committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Protocol

from paceline.plan import plan_study
from paceline.records import Plan, Study, Trial, TrialResult
from paceline.run.missing import device_s, expected_wall_s, missing
from paceline.run.trial import Bench, run_trial
from paceline.store.atomic import make_folder, write_json
from paceline.store.git_state import note_git_state
from paceline.store.lock import locked
from paceline.store.paths import StudyFolder
from paceline.store.study_file import write_study
from paceline.store.trial_files import read_results, remove_incomplete, set_aside_failed
from paceline.store.worker_files import Heartbeat

__all__ = ["Listener", "Progress", "Silent", "progress_of", "run_study"]


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


class Listener(Protocol):
    """Hears what happens, to show it."""

    def started(self, trial: Trial, progress: Progress) -> None: ...

    def stepped(self, trial: Trial, beats: tuple[Heartbeat, ...]) -> None: ...

    def ended(self, result: TrialResult, progress: Progress) -> None: ...


@dataclass(frozen=True, slots=True)
class Silent:
    """Hears and says nothing."""

    def started(self, trial: Trial, progress: Progress) -> None:
        return None

    def stepped(self, trial: Trial, beats: tuple[Heartbeat, ...]) -> None:
        return None

    def ended(self, result: TrialResult, progress: Progress) -> None:
        return None


def run_study(
    folder: StudyFolder, study: Study, *, bench: Bench, listener: Listener, retry_failed: bool = False
) -> str | None:
    """Run what is missing. Why trials were left out (the budget, nodes), or None when all are done.

    Whatever ends this (Ctrl-C, kill -9, a full disk), committed trials stay and the next call runs the rest.
    """
    plan = plan_study(study)
    make_folder(folder.trials)
    with locked(folder):
        bench.launcher.end_leftovers(folder.tag)
        remove_incomplete(folder)
        if retry_failed:
            set_aside_failed(folder)
        write_study(folder.study_toml, study)
        write_json(folder.plan_json, asdict(plan))
        results = read_results(folder)
        if missing(plan, results, study):
            note_git_state(folder, study)
        while todo := missing(plan, results, study):
            trial, why = _next(todo, bench)
            if trial is None:
                return f"before {why}; {len(todo)} trial{'' if len(todo) == 1 else 's'} left out"
            progress = progress_of(plan, results, study, left_out=bench.left_out)
            price = trial.point.workers * expected_wall_s(trial.point, results, study)
            if study.budget_device_s is not None and progress.spent_device_s + price > study.budget_device_s:
                spent = (
                    f"{progress.spent_device_s:.0f} of {study.budget_device_s:.0f} device seconds are spent"
                )
                return (
                    f"by the budget: {spent} and trial {trial.id} would take about {price:.0f}; "
                    f"{len(todo)} trials left out"
                )
            listener.started(trial, progress)
            result = run_trial(folder, study, trial, bench=bench, stepped=partial(listener.stepped, trial))
            results = (*results, result)
            listener.ended(result, progress_of(plan, results, study, left_out=bench.left_out))
    return None


def _next(todo: Sequence[Trial], bench: Bench) -> tuple[Trial | None, str]:
    """The first trial that can be started now, or None and why the first of them cannot."""
    why = ""
    for trial in todo:
        reason = bench.refusal(trial) if bench.refusal is not None else None
        if reason is None:
            return trial, ""
        why = why or f"trial {trial.id}, which {reason}"
    return None, why


def progress_of(
    plan: Plan, results: tuple[TrialResult, ...], study: Study, *, left_out: frozenset[str]
) -> Progress:
    """Where a study stands that has these results, and of which these points are not to be measured."""
    todo = tuple(trial for trial in missing(plan, results, study) if trial.point.id not in left_out)
    eta_s = sum(expected_wall_s(trial.point, results, study) for trial in todo)
    return Progress(plan, results, todo, eta_s, device_s(results), left_out)
