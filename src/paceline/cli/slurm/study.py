"""A study on Slurm, as its user sees it: handed in, followed, found again; and the desk inside the allocation."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from paceline.cli.measure import finish, measure, refuse_no_answer, terminated_like_interrupted
from paceline.cli.ready import asked_of, judged, refusal_of, refuse_no_script
from paceline.cli.slurm.allocation import launcher_here, nodes_seen
from paceline.cli.slurm.options import inside_allocation
from paceline.cli.slurm.task import measure_share
from paceline.cli.text.plan import print_plan
from paceline.cli.text.progress import progress_listener
from paceline.core.errors import Interrupted, PacelineError, UsageError
from paceline.launch.slurm.client import lacking, present
from paceline.launch.slurm.nodes import task_here
from paceline.plan.config import with_args_batch
from paceline.records import Plan, Study, TrialResult
from paceline.run.clock import SystemClock
from paceline.run.missing import missing, to_keep
from paceline.run.share import is_share_left
from paceline.run.slurm import attached, cpus_per_node, follow, hand_in, job_name, write_script
from paceline.run.trial import Bench
from paceline.slurm.array import resource_warnings
from paceline.slurm.state import JobState, ended_text, log_name, near_limit, phase, status_text
from paceline.store.atomic import make_folder
from paceline.store.paths import StudyFolder
from paceline.store.study_file import read_study
from paceline.store.worker_files import text_tail

__all__ = ["on_slurm", "why_left"]

_ENDED_BY_OTHERS = {"TIMEOUT", "CANCELLED", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "REVOKED"}
_INTERRUPTED = 130
_LAG_S = (
    15.0  # heartbeats are sent on every 5 s on network file systems; names in folders are seen later still
)


def on_slurm(
    folder: StudyFolder,
    study: Study,
    plan: Plan,
    *,
    held: Sequence[TrialResult],
    bench: Bench,
    emit: str | None,
    retry_failed: bool,
    json: bool,
) -> None:
    """A study that asks for Slurm: its script, its trials when this desk lies in an allocation, else its job."""
    if emit is not None:
        if emit != "sbatch" or study.slurm is None:
            raise UsageError(f"--emit {emit} without --on slurm is nothing", hint="--on slurm --emit sbatch")
        emit_script(folder, with_threads(study, bench), plan, held)
    elif inside_allocation():
        study, task = replace(study, threads=bench.threads), task_here(os.environ)
        if task is not None:
            if is_share_left(folder, missing(plan, held, study)):
                bench = slurm_bench(folder, study, plan, bench)
                measure_share(folder, study, plan, held=held, task=task, bench=bench, json=json)
            else:
                _say(f"task {task}: no run is left that no other task has taken")
            return
        bench = slurm_bench(folder, study, plan, bench)
        measure(folder, study, plan, held=held, bench=bench, retry_failed=retry_failed, json=json)
    else:
        study = with_threads(study, bench)
        study_on_slurm(folder, study, plan, held=held, bench=bench, retry_failed=retry_failed, json=json)


def with_threads(study: Study, bench: Bench) -> Study:
    """The study with its CPU threads, for which CPUs are asked; on exclusive nodes the job shares out what it finds."""
    assert study.slurm is not None
    free = study.slurm.exclusive and study.threads is None and not os.environ.get("OMP_NUM_THREADS")
    return study if free else replace(study, threads=bench.threads)


def emit_script(folder: StudyFolder, study: Study, plan: Plan, held: Sequence[TrialResult]) -> None:
    """Write the script, print it, and submit nothing."""
    script = write_script(folder, study, plan, missing(plan, held, study), python=sys.executable)
    print(script.read_text(encoding="utf-8"), end="")
    again = shlex.quote(str(folder.root))
    for warning in resource_warnings(study, cpus_per_node(study)):
        _say(warning)
    _say(f"written to {script}; submit it with: sbatch {shlex.quote(str(script))}")
    _say(f"afterwards `paceline study {again}` follows it, as if it had been submitted here")


def study_on_slurm(
    folder: StudyFolder,
    study: Study,
    plan: Plan,
    *,
    held: Sequence[TrialResult],
    bench: Bench,
    retry_failed: bool,
    json: bool,
) -> None:
    """Submit the study unless a job of it lives, follow that job, and analyse what it measured."""
    again = f"paceline study {shlex.quote(str(folder.root))}"
    kept = to_keep(held, retry_failed=retry_failed)
    todo = missing(plan, kept, study)
    job = None if lacking() else attached(folder, study)
    if job is not None and phase(job) != "over":
        _refuse_changes(folder, study, job, retry_failed=retry_failed)
        _say(f"{job_name(folder, study)} is under way: {status_text(job)}")
    elif todo:
        _refuse_without_slurm(folder, len(todo), again=again)
        refuse_no_script(study, "; where only compute nodes have it, --emit sbatch, and submit that yourself")
        if job is not None:
            _say(f"{ended_text(job, left=len(todo))}; submitting again")
        print_plan(folder, study, plan, results=kept, bench=bench, file=sys.stderr)
        script = write_script(folder, study, plan, todo, python=sys.executable)
        submitted = hand_in(folder, script, clock=SystemClock(), aside=held if retry_failed else ())
        held = kept
        job = JobState(submitted.job, "PENDING")
        if submitted.said is not None:
            _say(f"sbatch says: {submitted.said}")
        _say(f"job {job.id} is submitted ({script}); this shell may end, {again} follows it again")
    if job is not None and phase(job) != "over":
        job, held = _followed(folder, study, plan, job, held=held, again=again)
    recorded = read_study(folder.study_toml) if folder.study_toml.exists() else study
    analysis = finish(folder, recorded, held, json=json)
    left = len(missing(plan, held, study))
    if job is not None and left:
        _say_end(folder, job, left, again=again)
    refuse_no_answer(folder, analysis)


def _refuse_without_slurm(folder: StudyFolder, left: int, *, again: str) -> None:
    """Nothing is submitted where Slurm's commands are not at hand; without scontrol nobody would hear of the job."""
    trials = f"{left} run{'' if left == 1 else 's'} to go"
    if not present():
        raise UsageError(
            f"{folder.root} is a study on Slurm with {trials}, and there is no sbatch here",
            hint=f"go to a login node, or {again} --on here",
        )
    if lacking():
        raise UsageError(
            f"{folder.root} is a study on Slurm with {trials}, and {' and '.join(lacking())} is not in PATH here",
            hint="add the folder of Slurm's commands to PATH, where compute nodes find it too",
        )


def slurm_bench(folder: StudyFolder, study: Study, plan: Plan, bench: Bench) -> Bench:
    """The bench of a desk inside an allocation, after a look at every node."""
    launcher = launcher_here(study)
    assert launcher is not None
    make_folder(folder.root)
    facts = nodes_seen(launcher, asked_of(study, bench).subject, folder=folder.root)
    refused = judged(folder, study, plan, facts) if facts else {}
    too_large = {point.id for point in plan.points if point.nodes > len(launcher.nodes)}
    return replace(
        bench,
        launcher=launcher,
        rendezvous=launcher.rendezvous,
        refusal=partial(refusal_of, refused, launcher.refusal),
        left_out=frozenset(refused) | too_large,
        lag_s=_LAG_S,
    )


def _followed(
    folder: StudyFolder, study: Study, plan: Plan, job: JobState, *, held: Sequence[TrialResult], again: str
) -> tuple[JobState, Sequence[TrialResult]]:
    with terminated_like_interrupted(), progress_listener(folder, study) as listener:
        try:
            return follow(
                folder, study, plan, job.id, clock=SystemClock(), listener=listener, say=_say, known=held
            )
        except KeyboardInterrupt:
            raise Interrupted(
                f"job {job.id} goes on without this shell",
                hint=f"{again} follows it again; scancel {job.id} ends it",
            ) from None


def _refuse_changes(folder: StudyFolder, study: Study, job: JobState, *, retry_failed: bool) -> None:
    held = with_args_batch(read_study(folder.study_toml))
    if retry_failed or replace(held, threads=None) != replace(study, threads=None):
        raise UsageError(
            f"job {job.id} is working on the study as it was asked for; it cannot be changed meanwhile",
            hint=f"wait for it, or scancel {job.id}, then ask again",
        )


def _say_end(folder: StudyFolder, job: JobState, left: int, *, again: str) -> None:
    """Why the job ended before the study did, and how to go on."""
    why = why_left(folder, job)
    text = f"{ended_text(job, left=left)}{f' ({why})' if why else ''}"
    log = folder.slurm / log_name(job)
    if job.state == "COMPLETED":
        _say(text)
        return
    if job.state in _ENDED_BY_OTHERS or job.exit_code == _INTERRUPTED or job.state == "GONE":
        raise Interrupted(text, hint=f"{again} submits the rest{_longer(job)}")
    lines = [line for line in text_tail(log).splitlines() if line.strip()]
    said = "\n".join(f"  | {line}" for line in lines[-5:])
    raise PacelineError(f"{text}\n{said}" if said else text, hint=f"read {log}, then {again}")


def _longer(job: JobState) -> str:
    """What to add for a trial that never fits: without it the same would happen again."""
    by_time = job.state == "TIMEOUT" or (job.exit_code == _INTERRUPTED and near_limit(job))
    if not by_time or job.limit_s is None:
        return ""
    return f"; where one run does not fit, add --time {2 * job.limit_s / 60:.0f}min"


def why_left(folder: StudyFolder, job: JobState) -> str | None:
    """What a desk inside the job, or inside a task of it, said about trials that it left; None when none did."""
    logs = sorted(folder.slurm.glob(f"job-{job.id}_*.log")) if job.tasks else [folder.slurm / log_name(job)]
    lines = [line.strip() for log in logs for line in text_tail(log).splitlines()]
    said = [re.search(r"(^stopped (?:by|before) .*|(?<=with other tasks; ).*)", line) for line in lines]
    return next((match[0] for match in said if match), None)


def _say(text: str) -> None:
    print(f"paceline: {text}", file=sys.stderr, flush=True)
