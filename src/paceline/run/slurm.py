"""A study on Slurm, from the login node: handed in, followed, found again.

The desk inside the job writes the study's folder; the desk here only reads it, so that either may end at any moment
without the other. Slurm's controller serves everybody: it is asked every few seconds, the folder every second.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from paceline.launch.slurm.client import SlurmSilent, Submitted, job_named, job_state, present, submit
from paceline.records import Plan, Study, Trial, TrialResult
from paceline.run.clock import Clock
from paceline.run.missing import missing
from paceline.run.study import Listener, Progress, progress_of
from paceline.slurm.array import array_of
from paceline.slurm.script import Job, sbatch_script
from paceline.slurm.state import JobState, ended_text, phase, status_text
from paceline.store.atomic import make_folder, write_json, write_text
from paceline.store.claims import clear_claims
from paceline.store.lock import locked
from paceline.store.paths import StudyFolder
from paceline.store.preflight_file import points_left_out
from paceline.store.slurm_file import add_job, newest_job
from paceline.store.study_file import write_study
from paceline.store.trial_files import complete_trials, read_results, remove_incomplete, set_aside_failed
from paceline.store.worker_files import heartbeats, look_again

__all__ = ["attached", "cpus_per_node", "follow", "hand_in", "job_name", "standing_text", "write_script"]

_LOOK_S = 1.0
_ASK_S = 4.0
_SURE_S = 3.0  # a job that is put back into the queue may look ended for a moment
_LAG_S = 10.0  # what a compute node wrote may be seen late here


def job_name(folder: StudyFolder, study: Study) -> str:
    """A name by which the job of this folder is found again."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._") else "-" for c in study.name)
    return f"paceline-{plain[:40]}-{folder.tag[:6]}"


def write_script(
    folder: StudyFolder, study: Study, plan: Plan, todo: Sequence[Trial], *, python: str
) -> Path:
    """Record what is asked, and the script that asks Slurm for what is missing."""
    assert study.slurm is not None
    job = Job(
        name=job_name(folder, study),
        folder=str(folder.root.absolute()),
        python=python,
        nodes=max((trial.point.nodes for trial in todo), default=max(study.nodes, default=1)),
        cpus_per_node=cpus_per_node(study),
        output=str(folder.slurm.absolute()),
        array=array_of(study, todo),
    )
    text = sbatch_script(study.slurm, job)  # which may refuse: before anything is written
    make_folder(folder.trials)
    make_folder(folder.slurm)
    with locked(folder):
        write_study(folder.study_toml, study)
        write_json(folder.plan_json, asdict(plan))
        path = folder.slurm / "job.sbatch"
        write_text(path, text)
    return path


def hand_in(
    folder: StudyFolder, script: Path, *, clock: Clock, aside: Sequence[TrialResult] = ()
) -> Submitted:
    """Submit the script and remember its job. The study must have no live job. `aside`: results to be repeated."""
    with locked(folder):
        set_aside_failed(folder, aside)
        remove_incomplete(folder)  # nobody works on them any more: the study has no live job
        clear_claims(folder)
        submitted = submit(script)
        add_job(folder, submitted.job, date=clock.date())
    return submitted


def attached(folder: StudyFolder, study: Study) -> JobState | None:
    """The job that works, worked or will work on this folder; also one submitted by hand, while it lives."""
    name, known = job_name(folder, study), newest_job(folder)
    job = None if known is None else job_state(known)
    if job is not None and job.name not in (None, name):
        job = JobState(job.id, "GONE")  # numbers begin again on a new controller
    if job is not None and phase(job) != "over":
        return job
    by_hand = job_named(name)
    return job if by_hand is None else job_state(by_hand)


def standing_text(folder: StudyFolder, study: Study, *, left: int) -> str | None:
    """How the job of a study stands that has so many trials left; None where none is, or no job was ever seen."""
    if not left or not present():
        return None
    try:
        job = attached(folder, study)
    except SlurmSilent as silent:
        return f"Slurm does not answer ({silent.message})"
    if job is None:
        return None
    return status_text(job) if phase(job) != "over" else ended_text(job, left=left)


def follow(
    folder: StudyFolder,
    study: Study,
    plan: Plan,
    job_id: str,
    *,
    clock: Clock,
    listener: Listener,
    say: Callable[[str], None],
    known: Sequence[TrialResult] = (),
) -> tuple[JobState, tuple[TrialResult, ...]]:
    """Tell what happens until the job is over; how it ended, and all results. Ending this desk ends nothing else."""
    eyes = _Eyes(folder, study, plan, listener, known)
    said, job, asked, seen = "", None, -_ASK_S, eyes.under_way
    while True:
        begun = job is not None and phase(job) == "waiting" and not eyes.under_way <= seen
        if begun or clock.monotonic_s() - asked >= _ASK_S:
            asked, seen = clock.monotonic_s(), eyes.under_way
            job, text = _asked(job_id, job)
            if text != said:
                said = text
                say(text)
        eyes.look()
        if job is not None and phase(job) == "over":
            clock.pause(_SURE_S)
            job, _ = _asked(job_id, job)
            if phase(job) == "over":
                break
            continue
        clock.pause(_LOOK_S)
    until = clock.monotonic_s() + (_LAG_S if job.state == "COMPLETED" else _LOOK_S)
    while eyes.look() and clock.monotonic_s() < until:
        clock.pause(_LOOK_S)
        for trial_id in eyes.under_way:
            look_again(folder.trial(trial_id))
    return job, eyes.results


class _Eyes:
    """What is seen of a study that another desk runs, told once each."""

    def __init__(
        self,
        folder: StudyFolder,
        study: Study,
        plan: Plan,
        listener: Listener,
        known: Sequence[TrialResult],
    ) -> None:
        self._folder = folder
        self._study = study
        self._listener = listener
        self._plan = plan
        self.results = read_results(folder, known)
        self._marks = self._committed()
        self._begun: set[str] = set()

    @property
    def under_way(self) -> set[str]:
        """The trials that have begun and are not complete."""
        return {trial.id for trial in self._under_way(self._committed())}

    def look(self) -> int:
        """Tell what is new; how many trials are missing."""
        marks = self._committed()
        if marks != self._marks:
            known = {result.trial.id for result in self.results}
            self._marks, self.results = marks, read_results(self._folder, self.results)
            progress = self._progress()
            for result in self.results:
                if result.trial.id not in known:
                    if result.trial.id not in self._begun:
                        self._listener.started(result.trial, progress)
                    self._listener.ended(result, progress)
        for trial in self._under_way(marks):
            if trial.id not in self._begun:
                self._listener.started(trial, self._progress())
            self._begun.add(trial.id)
            self._listener.stepped(trial, heartbeats(self._folder.trial(trial.id)))
        return len(missing(self._plan, self.results, self._study))

    def _progress(self) -> Progress:
        return progress_of(self._plan, self.results, self._study, left_out=points_left_out(self._folder))

    def _committed(self) -> frozenset[str]:
        return frozenset(path.name for path in complete_trials(self._folder))

    def _under_way(self, marks: frozenset[str]) -> list[Trial]:
        """The trials whose folder is there without its commit mark: one, or one of every task of an array."""
        names = set(os.listdir(self._folder.trials)) - marks
        return [trial for trial in self._plan.trials if trial.id in names]


def _asked(job_id: str, before: JobState | None) -> tuple[JobState, str]:
    """The job as it is now; as it was, while Slurm does not answer."""
    try:
        job = job_state(job_id)
    except SlurmSilent as silent:
        known = before or JobState(job_id, "PENDING", reason="not yet known")
        return known, f"Slurm does not answer ({silent.message}); still asking"
    return job, status_text(job)


def cpus_per_node(study: Study) -> int | None:
    """CPUs of a node that the workers need; None where the node is ours alone, or the user has said."""
    assert study.slurm is not None
    if any(option.startswith("cpus-per-task") for option in study.slurm.options):
        return None
    if study.slurm.exclusive and study.threads is None:
        return None
    return max(study.workers_per_node or study.workers) * (study.threads or 1)
