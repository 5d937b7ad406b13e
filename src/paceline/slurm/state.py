"""What Slurm says about a job, as data, and what that means for a study.

waiting    PENDING, CONFIGURING, REQUEUED, …       running    RUNNING, COMPLETING, …
over       COMPLETED, FAILED, TIMEOUT, CANCELLED, PREEMPTED, NODE_FAIL, …; what was measured is kept in every case

A desk that Slurm warns before the time limit leaves in order, so that the job ends FAILED with exit code 130 a
little early: near its limit that is the time limit's doing.

A job array is one job to its user: running while a task runs, waiting while one waits, over when all are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from paceline.core.units import duration_text
from paceline.slurm.reason import reason_text

__all__ = [
    "JobState",
    "ended_text",
    "job_from_sacct",
    "job_from_scontrol",
    "job_of_sbatch",
    "log_name",
    "near_limit",
    "node_address",
    "node_trouble",
    "phase",
    "status_text",
]

Phase = Literal["waiting", "running", "over"]

_WAITING = {
    "PENDING",
    "CONFIGURING",
    "REQUEUED",
    "REQUEUE_FED",
    "REQUEUE_HOLD",
    "SPECIAL_EXIT",
    "RESV_DEL_HOLD",
}
_RUNNING = {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"}
_NEAR_S = 180.0  # the warning comes up to two minutes before the limit, and ending in order takes a moment
_INTERRUPTED = 130
_MOST_NAMED = 4  # tasks by their numbers; more are counted
_WHY = {
    "TIMEOUT": "reached its time limit",
    "CANCELLED": "was cancelled",
    "PREEMPTED": "was preempted by another job",
    "NODE_FAIL": "lost a node",
    "BOOT_FAIL": "could not start a node",
    "DEADLINE": "met its deadline",
    "OUT_OF_MEMORY": "ran out of memory",
}


@dataclass(frozen=True, slots=True)
class JobState:
    """One job as Slurm describes it."""

    id: str
    state: str  # Slurm's own word; GONE: no longer known
    reason: str | None = None
    exit_code: int | None = None
    run_s: float | None = None
    limit_s: float | None = None
    nodes: str | None = None
    restarts: int = 0
    start: str | None = None  # when it began, or is expected to
    name: str | None = None
    preempted: bool = False  # told to make room for another job; RUNNING until its time of grace is over
    task: str | None = None  # of an array: its number, or those that wait as Slurm writes them: 3-5%2
    tasks: tuple[JobState, ...] = ()  # of an array that was asked for as a whole, as far as Slurm knows them


def phase(job: JobState) -> Phase:
    """Whether the job is still to come, under way or over."""
    if job.state in _WAITING:
        return "waiting"
    return "running" if job.state in _RUNNING else "over"


def job_of_sbatch(text: str) -> str | None:
    """The number in what `sbatch --parsable` printed, beside which sites and wrappers print lines of their own."""
    own = r"(?m)^\s*(\d+)(?:;\S*)?\s*$"  # "12;cluster" with several clusters
    found = re.findall(own, text) or re.findall(r"(?i)submitted batch job (\d+)", text)
    return found[-1] if found else None


def job_from_scontrol(job_id: str, text: str) -> JobState | None:
    """The job in `scontrol show job --oneliner`: a line each for the tasks of an array."""
    return _together(job_id, [job for line in text.splitlines() if (job := _job_of_line(line)) is not None])


def _job_of_line(text: str) -> JobState | None:
    fields = dict(re.findall(r"(?:^|\s)(\w+)=(\S*)", text))
    if not fields.get("JobId") or not fields.get("JobState"):
        return None
    return JobState(
        id=fields["JobId"],
        state=fields["JobState"],
        reason=_known(fields.get("Reason")),
        exit_code=_exit_code(fields.get("ExitCode", "")),
        run_s=_seconds(fields.get("RunTime", "")),
        limit_s=_seconds(fields.get("TimeLimit", "")),
        nodes=_known(fields.get("NodeList")),
        restarts=int(fields["Restarts"]) if fields.get("Restarts", "").isdigit() else 0,
        start=_known(fields.get("StartTime")),
        name=_known(fields.get("JobName")),
        preempted=_known(fields.get("PreemptTime")) is not None,
        task=_known(fields.get("ArrayTaskId")),
    )


def job_from_sacct(job_id: str, text: str) -> JobState | None:
    """The job in `sacct -P -n -o JobID,State,ExitCode,Elapsed,Timelimit`; the last line of an id counts."""
    own: dict[str, JobState] = {}
    for row in (line.split("|") for line in text.splitlines()):
        number, _, task = row[0].strip().partition("_")
        if len(row) < 3 or not row[1].strip() or "." in row[0] or job_id not in (number, row[0].strip()):
            continue
        state = row[1].split()[0].rstrip("+")  # "CANCELLED by 1000"
        run_s, limit_s = (_seconds(text.strip()) for text in (*row, "", "")[3:5])
        own[row[0]] = JobState(
            number,
            state,
            exit_code=_exit_code(row[2]),
            run_s=run_s,
            limit_s=limit_s,
            task=task.strip("[]") or None,
        )
    return _together(job_id, list(own.values()))


def log_name(job: JobState) -> str:
    """The file that the desk of this job, or of the task that says how an array stands, wrote to."""
    return f"job-{job.id}{f'_{job.task}' if job.tasks else ''}.log"


def status_text(job: JobState) -> str:
    """One line for a person who waits."""
    if job.tasks:
        return f"job {job.id}: {'; '.join(_task_texts(job.tasks))}"
    if phase(job) == "waiting":
        again = f", put back into the queue {_times(job.restarts)}" if job.restarts else ""
        begins = f"; Slurm expects it to start at {job.start.replace('T', ' ')}" if job.start else ""
        return f"job {job.id} waits ({_reason(job)}){again}{begins}"
    if phase(job) == "running":
        where = f" on {job.nodes}" if job.nodes else ""
        again = f", started again {_times(job.restarts)}" if job.restarts else ""
        return f"job {job.id} is {job.state}{where}{again}"
    return f"job {job.id} {_why(job)}"


def near_limit(job: JobState) -> bool:
    """Whether the job has run nearly as long as it was allowed to, so that its end is the limit's doing."""
    return job.run_s is not None and job.limit_s is not None and job.run_s >= job.limit_s - _NEAR_S


def ended_text(job: JobState, *, left: int) -> str:
    """What the end of a job means for a study of which `left` trials are still to be run."""
    count = "1 run is" if left == 1 else f"{left} runs are"
    kept = f"{count} left; what was measured is kept" if left else "every run is complete"
    return f"{status_text(job)}: {kept}"


def node_address(text: str) -> str | None:
    """The address in one line of `scontrol show node --oneliner`."""
    match = re.search(r"\bNodeAddr=(\S+)", text)
    return None if match is None else match[1]


def node_trouble(text: str) -> str | None:
    """Slurm's word for a node that does not work: DOWN, FAIL, or one that does not answer (State=IDLE*)."""
    match = re.search(r"\bState=(\S+)", text)
    if match is None:
        return None
    parts = match[1].split("+")
    bad = [
        part for part in parts if part.endswith("*") or part.startswith(("DOWN", "FAIL", "NOT_RESPONDING"))
    ]
    return "+".join(parts) if bad else None


def _together(job_id: str, jobs: Sequence[JobState]) -> JobState | None:
    """One job, or an array as one: as its first running task has it, else its first waiting one, else the worst end."""
    if not jobs:
        return None
    if "_" in job_id or (len(jobs) == 1 and jobs[0].task is None):
        return replace(jobs[-1], id=job_id)
    tasks = tuple(sorted(jobs, key=_first_number))
    order = ("running", "waiting", "over")
    leading = min(tasks, key=lambda task: (order.index(phase(task)), task.state == "COMPLETED"))
    return replace(leading, id=job_id, tasks=tasks)


def _first_number(job: JobState) -> int:
    match = re.match(r"\d+", job.task or "")
    return int(match[0]) if match else 0


def _task_texts(tasks: Sequence[JobState]) -> list[str]:
    """tasks 1, 2 are RUNNING on n1, n2; tasks 3-5 wait (Priority); what is alike is said once."""
    alike: dict[tuple[Phase, str], list[JobState]] = {}
    for task in tasks:
        word = {"waiting": f"({_reason(task)})", "running": task.state, "over": _why(task)}[phase(task)]
        alike.setdefault((phase(task), word), []).append(task)
    said = []
    for (how, word), own in alike.items():
        names = [(task.task or "").partition("%")[0] for task in own]
        one = len(own) == 1 and names[0].isdigit()
        who = (
            f"task{'' if one else 's'} {', '.join(names)}" if len(own) <= _MOST_NAMED else f"{len(own)} tasks"
        )
        where = ", ".join(dict.fromkeys(task.nodes for task in own if task.nodes))
        if how == "running":
            word = f"{'is' if one else 'are'} {word}{f' on {where}' if where else ''}"
        elif how == "waiting":
            word = f"{'waits' if one else 'wait'} {word}"
        said.append(f"{who} {word if one else _plural(word)}")
    return said


def _plural(text: str) -> str:
    """Of several: `was cancelled` is `were cancelled`."""
    return re.sub(r"^was\b", "were", text)


def _reason(job: JobState) -> str:
    return reason_text(job.reason or job.state)


def _why(job: JobState) -> str:
    if job.state == "COMPLETED":
        return "completed"
    if job.state == "GONE":
        return "is over; Slurm no longer knows how it ended"
    limit = f" of {duration_text(job.limit_s)}" if job.limit_s is not None else ""
    if job.state == "FAILED" and job.exit_code == _INTERRUPTED:
        return (
            f"came near its time limit{limit} and left in order"
            if near_limit(job)
            else "was told to stop, and left in order"
        )
    if job.state == "TIMEOUT":
        return _WHY["TIMEOUT"] + limit
    code = f" with exit code {job.exit_code}" if job.exit_code else ""
    return _WHY.get(job.state, f"ended {job.state}{code}")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _known(text: str | None) -> str | None:
    return None if text in (None, "", "None", "(null)", "Unknown", "N/A") else text


def _exit_code(text: str) -> int | None:
    """`130:0` is exit code 130; `0:15` ended by signal 15, as a negative number."""
    match = re.match(r"(\d+):(\d+)", text)
    if match is None:
        return None
    return -int(match[2]) if int(match[2]) else int(match[1])


def _seconds(text: str) -> float | None:
    """`1-02:03:04` or `02:03:04`, or whole minutes, as job completions have them; None for UNLIMITED and the like."""
    if text.isdigit():
        return 60.0 * int(text)
    match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
