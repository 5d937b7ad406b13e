"""What Slurm says about a job, as data, and what that means for a study.

waiting    PENDING, CONFIGURING, REQUEUED, …       running    RUNNING, COMPLETING, …
over       COMPLETED, FAILED, TIMEOUT, CANCELLED, PREEMPTED, NODE_FAIL, …; what was measured is kept in every case

A desk that Slurm warns before the time limit leaves in order, so that the job ends FAILED with exit code 130 a
little early: near its limit that is the time limit's doing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from paceline.units import duration_text

__all__ = [
    "JobState",
    "ended_text",
    "job_from_sacct",
    "job_from_scontrol",
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


def phase(job: JobState) -> Phase:
    """Whether the job is still to come, under way or over."""
    if job.state in _WAITING:
        return "waiting"
    return "running" if job.state in _RUNNING else "over"


def job_from_scontrol(text: str) -> JobState | None:
    """The job in one line of `scontrol show job --oneliner`."""
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
    )


def job_from_sacct(job_id: str, text: str) -> JobState | None:
    """The job in `sacct --parsable2 --noheader --format JobID,State,ExitCode`; the last line of this id counts."""
    rows = [line.split("|") for line in text.splitlines()]
    own = [row for row in rows if len(row) >= 3 and row[0].strip() == job_id]
    if not own or not own[-1][1].strip():
        return None
    state = own[-1][1].split()[0].rstrip("+")  # "CANCELLED by 1000"
    return JobState(id=job_id, state=state, exit_code=_exit_code(own[-1][2]))


def status_text(job: JobState) -> str:
    """One line for a person who waits."""
    if phase(job) == "waiting":
        again = f", put back into the queue {_times(job.restarts)}" if job.restarts else ""
        begins = f"; Slurm expects it to start at {job.start.replace('T', ' ')}" if job.start else ""
        reason = (job.reason or job.state).replace("_", " ")
        return f"job {job.id} waits ({reason}){again}{begins}"
    if phase(job) == "running":
        where = f" on {job.nodes}" if job.nodes else ""
        again = f", started again {_times(job.restarts)}" if job.restarts else ""
        return f"job {job.id} is {job.state}{where}{again}"
    return f"job {job.id} {_why(job)}"


def ended_text(job: JobState, *, left: int) -> str:
    """What the end of a job means for a study of which `left` trials are still to be run."""
    count = "1 trial is" if left == 1 else f"{left} trials are"
    kept = f"{count} left; what was measured is kept" if left else "every trial is complete"
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


def _why(job: JobState) -> str:
    if job.state == "COMPLETED":
        return "completed"
    if job.state == "GONE":
        return "is over; Slurm no longer knows how it ended"
    near = job.run_s is not None and job.limit_s is not None and job.run_s >= job.limit_s - _NEAR_S
    limit = f" of {duration_text(job.limit_s)}" if job.limit_s is not None else ""
    if job.state == "FAILED" and job.exit_code == _INTERRUPTED:
        return (
            f"came near its time limit{limit} and left in order"
            if near
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
    """`1-02:03:04` or `02:03:04`; None for UNLIMITED and the like."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
