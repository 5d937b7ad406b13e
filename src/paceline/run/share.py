"""The share of one task of a job array: one missing trial after the other that no other task holds.

claimed     before a trial begins its name is claimed; of several tasks that try at once one succeeds
lost        a claim holds while Slurm says that its task runs, as often started as when it claimed. Otherwise the
            task is lost and the next one who looks takes its trial: no clock is compared, no heartbeat is trusted.
            Who finds a task about to end (COMPLETING) waits for what becomes of its trial
time        after its first trial a task begins another only if that fits into what is left of its time
given up    a trial that two tasks were lost with: a training longer than --time would use up every task for nothing
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from paceline.core.units import duration_text
from paceline.launch.slurm.client import SlurmSilent, job_state
from paceline.records import Plan, Study, Trial, TrialResult
from paceline.run.missing import expected_wall_s, missing
from paceline.run.study import Listener, progress_of
from paceline.run.trial import Bench, run_trial
from paceline.slurm.script import signal_lead_s
from paceline.slurm.state import JobState, phase
from paceline.store.claims import Holder, claim, holders, tasks_with
from paceline.store.git_state import note_git_state
from paceline.store.lock import shared
from paceline.store.paths import StudyFolder
from paceline.store.trial_files import is_complete, read_results

__all__ = ["Share", "holder_of", "is_share_left", "run_share"]

_MOST_LOST = 2
_LOOK_S = 5.0
_ENDING_S = 180.0  # Slurm may take minutes to make sure that nothing of a task is left

How = Literal["free", "ending", "held"]


@dataclass(frozen=True, slots=True)
class Share:
    """How a task ended: how many trials it ran, how many it left, why, where somebody should know, and all results."""

    ran: int
    left: int
    why: str | None = None
    results: tuple[TrialResult, ...] = ()


@dataclass(frozen=True, slots=True)
class _Claimed:
    """A trial, the number that the next claim on it would have, and how it is held now."""

    trial: Trial
    number: int
    how: How


def holder_of(task: str, environment: Mapping[str, str]) -> Holder:
    """This task as one who claims trials, as Slurm described it to its processes."""
    restarts = int(environment.get("SLURM_RESTART_COUNT", "0"))
    return Holder(task, restarts, environment.get("SLURM_JOB_NAME", ""))


def is_share_left(folder: StudyFolder, todo: Sequence[Trial]) -> bool:
    """Whether a task has reason to stay: a trial that nobody holds, or whose holder is about to end."""
    return any(claimed.how != "held" for claimed in _claims_on(folder, todo))


def run_share(
    folder: StudyFolder,
    study: Study,
    plan: Plan,
    *,
    own: Holder,
    bench: Bench,
    listener: Listener,
    known: Sequence[TrialResult] = (),
) -> Share:
    """Run missing trials that nobody holds until there is none, or no time. Other tasks do the same meanwhile."""
    results, ran, waited_s = tuple(known), 0, 0.0
    with shared(folder):
        note_git_state(folder, study)
        while True:
            results = read_results(folder, results)
            todo = missing(plan, results, study)
            left_s = _left_s(own.task) if ran else None
            trial, why = None, None
            claims = _claims_on(folder, todo)
            for found in (found for found in claims if found.how == "free"):
                needs_s = expected_wall_s(found.trial.point, results, study)
                reason = _given_up(folder, found.trial) or _unfit(
                    found.trial, needs_s, left_s=left_s, bench=bench
                )
                why = why or reason
                if reason is None and claim(folder, found.trial.id, found.number, own):
                    trial = found.trial
                    break
            if trial is None:
                if waited_s < _ENDING_S and any(found.how == "ending" for found in claims):
                    bench.clock.pause(_LOOK_S)
                    waited_s += _LOOK_S
                    continue
                return Share(ran, len(todo), why, results)
            if is_complete(folder, trial.id):  # by a task that has ended since, and is seen only now
                continue
            listener.started(trial, progress_of(plan, results, study, left_out=bench.left_out))
            result = run_trial(folder, study, trial, bench=bench, stepped=partial(listener.stepped, trial))
            ran += 1
            results = (*results, result)
            listener.ended(result, progress_of(plan, results, study, left_out=bench.left_out))


def _given_up(folder: StudyFolder, trial: Trial) -> str | None:
    """Why no task should begin this trial again: too many were lost with it. A task that was put back is the same."""
    tasks = tasks_with(folder, trial.id)
    if len(tasks) < _MOST_LOST:
        return None
    return f"run {trial.id} was begun by tasks {' and '.join(tasks)}, which were lost: is --time long enough for it?"


def _unfit(trial: Trial, needs_s: float, *, left_s: float | None, bench: Bench) -> str | None:
    """Why this task should not begin this trial now."""
    if left_s is not None and needs_s > left_s:
        left = f"{duration_text(left_s)} of this task's time are left"
        return f"run {trial.id} would take about {duration_text(needs_s)}, and {left}"
    refused = bench.refusal(trial) if bench.refusal is not None else None
    return None if refused is None else f"run {trial.id} {refused}"


def _claims_on(folder: StudyFolder, todo: Sequence[Trial]) -> list[_Claimed]:
    """How these trials are claimed, each with the number that the next claim would have."""
    held = holders(folder)
    states = _states(holder for _, holder in held.values() if holder is not None)
    found = []
    for trial in todo:
        number, holder = held.get(trial.id, (0, None))
        how: How = "free" if number == 0 else "held"  # a claim that cannot be read may be a living one's
        if holder is not None:
            job = states.get(holder)
            how = "free" if job is None else "ending" if job.state == "COMPLETING" else "held"
        found.append(_Claimed(trial, number + 1, how))
    return found


def _states(claimed: Iterable[Holder]) -> dict[Holder, JobState]:
    """The task of every holder that still works on what it claimed. While Slurm does not answer, all of them do."""
    living: dict[Holder, JobState] = {}
    arrays: dict[str, list[Holder]] = {}
    for holder in claimed:
        arrays.setdefault(holder.task.partition("_")[0], []).append(holder)
    for array, own in arrays.items():
        try:
            tasks = {f"{array}_{job.task}": job for job in job_state(array).tasks}
        except SlurmSilent:
            living |= {holder: JobState(holder.task, "RUNNING") for holder in own}
            continue
        living |= {
            holder: job
            for holder in own
            if (job := tasks.get(holder.task)) is not None and _works(job, holder)
        }
    return living


def _works(job: JobState, holder: Holder) -> bool:
    same = job.name in (None, holder.name) and job.restarts == holder.restarts
    return same and phase(job) == "running"


def _left_s(task: str) -> float | None:
    """The time until Slurm tells the task to leave; None where it has no limit, or Slurm does not answer."""
    try:
        job = job_state(task)
    except SlurmSilent:
        return None
    if job.limit_s is None or job.run_s is None:
        return None
    return max(0.0, job.limit_s - signal_lead_s(job.limit_s) - job.run_s)
