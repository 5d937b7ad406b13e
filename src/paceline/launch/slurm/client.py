"""Slurm's own commands, called and read. Every call has an end, and no shell ever sees a name.

sbatch hands a script in; scontrol knows live jobs (and those that ended minutes ago), sacct those of long ago, where
the site keeps accounts (`sacct`) or job completions (`sacct --completion`). A controller that does not answer is not
an answer: SlurmSilent, and the caller may ask again.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.core.errors import PacelineError, UsageError
from paceline.slurm.reason import refusal_hint
from paceline.slurm.state import JobState, job_from_sacct, job_from_scontrol, job_of_sbatch

__all__ = [
    "SlurmSilent",
    "Submitted",
    "cancel_waiting",
    "hostnames",
    "job_named",
    "job_state",
    "lacking",
    "node_lines",
    "present",
    "signal_step",
    "steps",
    "submit",
]

_CALL_S = 60.0
_NEEDED = ("sbatch", "scontrol", "squeue")  # to hand a job in, and to hear of it
_ABSENT = 127  # a shell's exit code for a command that it does not find
_LATER = "ask again in a minute"
_NO_CONTROLLER = re.compile(
    r"unable to contact slurm controller|could not establish a configuration|resolve_ctls|fetch_config|"
    r"connection (?:refused|timed out)",
    re.IGNORECASE,
)


class SlurmSilent(PacelineError):
    """Slurm does not answer now; it may later."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job that sbatch took, and what the site had to say about it."""

    job: str
    said: str | None


def present() -> bool:
    """Whether a study can be handed to Slurm from here."""
    return shutil.which("sbatch") is not None


def lacking() -> tuple[str, ...]:
    """The commands of Slurm that a study needs and that are not in PATH here."""
    return tuple(name for name in _NEEDED if shutil.which(name) is None)


def submit(script: Path) -> Submitted:
    """Hand a script to sbatch."""
    done = _call("sbatch", "--parsable", str(script))
    if done.returncode and _NO_CONTROLLER.search(done.stderr):
        raise _silent("sbatch", done)
    if done.returncode:
        raise UsageError(f"sbatch does not take {script}: {_said(done)}", hint=refusal_hint(_said(done)))
    job = job_of_sbatch(done.stdout)
    if job is None:
        raise PacelineError(
            f"sbatch took {script} and named no job: {done.stdout.strip() or 'it said nothing'}",
            hint="squeue --me shows whether there is one; the same command then finds it by its name",
        )
    return Submitted(job, _said(done).replace("sbatch: ", "") if done.stderr.strip() else None)


def job_state(job_id: str) -> JobState:
    """What Slurm knows of a job; state GONE when nothing does any more."""
    shown = _call("scontrol", "show", "job", "--oneliner", job_id)
    job = job_from_scontrol(job_id, shown.stdout) if shown.returncode == 0 else None
    if job is not None:
        return job
    if not re.search("invalid job id|not found", shown.stderr + shown.stdout, re.IGNORECASE):
        raise _silent(f"scontrol show job {job_id}", shown)
    for source in ([], ["--completion"]):
        told = _call(
            "sacct", *source, "-n", "-P", "-j", job_id, "-o", "JobID,State,ExitCode,Elapsed,Timelimit"
        )
        job = job_from_sacct(job_id, told.stdout) if told.returncode == 0 else None
        if job is not None:
            return job
    return JobState(job_id, "GONE")


def job_named(name: str) -> str | None:
    """The id of a live job of this user with this name; the newest of several."""
    listed = _call(
        "squeue", "--me", "--noheader", "--name", name, "--format", "%F"
    )  # of an array the array's
    if listed.returncode:
        raise _silent("squeue", listed)
    return max((line.strip() for line in listed.stdout.splitlines() if line.strip()), key=int, default=None)


def hostnames(node_list: str) -> tuple[str, ...]:
    """The nodes that Slurm's short form (n[1-3]) means, in its order."""
    done = _call("scontrol", "show", "hostnames", node_list)
    names = tuple(done.stdout.split())
    if done.returncode or not names:
        absent = done.returncode == _ABSENT
        raise SlurmSilent(
            f"scontrol show hostnames {node_list}: {_said(done)}",
            hint="--prologue 'export PATH=…' with the folder of Slurm's commands" if absent else _LATER,
        )
    return names


def node_lines(nodes: Sequence[str]) -> dict[str, str]:
    """What Slurm knows of these nodes, a line each; nothing of them when it does not answer."""
    done = _call("scontrol", "show", "node", "--oneliner", ",".join(nodes))
    lines = done.stdout.splitlines() if done.returncode == 0 else []
    return {node: line for line in lines for node in nodes if line.startswith(f"NodeName={node} ")}


def steps(job_id: str, *, named: str) -> tuple[str, ...]:
    """The live steps of a job whose name begins so."""
    listed = _call("squeue", "--steps", "--noheader", "--jobs", job_id, "--format", "%i|%j")
    pairs = [line.strip().partition("|") for line in listed.stdout.splitlines()]
    return tuple(step for step, _, name in pairs if name.startswith(named))


def signal_step(step: str, number: str) -> None:
    """Send a signal to every process of a step. A step that has ended meanwhile is no matter."""
    _call("scancel", "--quiet", "--signal", number, step)


def cancel_waiting(job_id: str) -> None:
    """Take the tasks of a job that still wait out of the queue. None waiting is no matter."""
    _call("scancel", "--quiet", "--state", "PENDING", job_id)


def _call(*words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_CALL_S, check=False
        )
    except FileNotFoundError:
        return subprocess.CompletedProcess(words, _ABSENT, "", f"{words[0]} is not in PATH")
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 124, "", f"no answer within {_CALL_S:.0f} s")


def _silent(what: str, done: subprocess.CompletedProcess[str]) -> SlurmSilent:
    """Why there is no answer, in one plain line where it is that nobody is there to give one."""
    if _NO_CONTROLLER.search(done.stderr):
        return SlurmSilent(
            "no Slurm controller can be reached from this machine",
            hint="run it on a login node of the cluster, or --emit sbatch here and submit the script there",
        )
    return SlurmSilent(f"{what}: {_said(done)}", hint=_LATER)


def _said(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.partition("error: ")[2] or line for line in done.stderr.strip().splitlines()]
    return "; ".join(dict.fromkeys(lines)) or f"exit code {done.returncode}"
