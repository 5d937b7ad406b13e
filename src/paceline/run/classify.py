"""How a trial ended: one state, and a reason that names the worker and the cause.

ok         every worker stepped to its end, whatever the exit code of a parent script
diverged   a loss that is not finite
oom        a worker ran out of device or host memory, or the kernel killed it for memory
crashed    a worker raised, was killed, or never came; a node was lost
short      the script ended as it meant to, without one optimizer step
hung       no step for too long: the worker that is behind, and where it stands
timeout    still going when time was up
"""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field

from paceline.core.units import duration_text
from paceline.records import Standing, State, WorkerRecord
from paceline.run.standstill import standstill_text
from paceline.run.watch import Limits, Watched
from paceline.store.worker_files import Ending, Failure, Heartbeat

__all__ = ["Evidence", "classify"]

# what other workers say after one of them has gone: never the cause
_SECONDARY = re.compile(
    r"(?i)connection (closed|reset|refused)|broken pipe|gloo|nccl|socket|barrier|heartbeat"
)
_PORT = re.compile(r"(?i)EADDRINUSE|address already in use")
_LAUNCHER_KILLED = re.compile(r"^host \d+ of \d+: its launcher was killed by SIG\w+$")
_ROOT_CAUSE = re.compile(r"Root Cause.*?rank\s*:\s*(\d+).*?exitcode\s*:\s*(-?\d+)", re.DOTALL)
_SIGNALLED = re.compile(r"Sending process (\d+) closing signal")
_SPAWN_DEATH = re.compile(r"process (\d+) terminated with (?:signal (SIG\w+)|exit code (\d+))")
_THREAD = re.compile(r"(?m)^(?:Current t|T)hread 0x.*$")
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_LONGEST_TEXT = 200
_A_RHYTHM = 3  # steps that came in time: then the next is late, not long
_NOT_THE_USERS = re.compile(r"site-packages|/lib/python3|paceline_agent|<frozen|<string>|torch/")


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known about a trial that has ended."""

    workers: int
    watched: Watched
    limits: Limits
    endings: tuple[Ending, ...]
    failures: tuple[Failure, ...]
    records: tuple[WorkerRecord, ...]
    stacks: Mapping[int, str]
    log: str
    memory_kills: int  # kernel memory kills during the trial
    lost_nodes: tuple[str, ...] = ()  # what the launcher says of nodes that went away
    said: Mapping[int, str] = field(default_factory=dict)  # the end of what each worker printed
    standings: tuple[Standing, ...] = ()  # what workers that do not move wait in


def classify(evidence: Evidence) -> tuple[State, str | None]:
    """The state of the trial and the reason for it."""
    lost = _lost_loss(evidence)
    if lost is not None:
        return "diverged", lost
    good = [
        e
        for e in evidence.endings
        if e.reason == "enough" or (e.reason == "returned" and _stepped(evidence, e))
    ]
    if len(good) == evidence.workers:
        return "ok", None
    if len(good) > evidence.workers:
        return "crashed", f"{len(good)} workers took part where {evidence.workers} was asked for"
    if evidence.lost_nodes:
        return "crashed", "; ".join(evidence.lost_nodes)
    failure = _first_cause(evidence.failures)
    if failure is not None and (not _echo(failure) or _noticed_only(failure, evidence)):
        left = _left_early(evidence) if _echo(failure) else None
        text = _failure_text(failure, evidence)
        return "oom" if failure.oom else "crashed", f"{left}; {text}" if left else text
    stopped = _measuring_stopped(evidence)
    if stopped is not None:
        return "crashed", stopped
    if evidence.watched.how == "hung":
        return "hung", _hang_text(evidence)
    if evidence.watched.how == "timeout":
        return "timeout", _timeout_text(evidence)
    return _death(evidence)


def _measuring_stopped(evidence: Evidence) -> str | None:
    """The agent gave up, the script did not: what it said about that."""
    for record in evidence.records:
        problems = record.manifest.get("problems")
        if not record.samples and isinstance(problems, list) and problems:
            return f"{_worker(record.rank, evidence)}: measuring stopped: {problems[0]}"
    return None


def _stepped(evidence: Evidence, ending: Ending) -> bool:
    return any(record.rank == ending.rank and record.samples for record in evidence.records)


def _lost_loss(evidence: Evidence) -> str | None:
    for record in evidence.records:
        for sample in record.samples:
            if sample.loss is not None and not math.isfinite(sample.loss):
                return f"{_worker(record.rank, evidence)}: the loss became {sample.loss} at step {sample.k}"
    return None


def _first_cause(failures: tuple[Failure, ...]) -> Failure | None:
    """The failure that began it: memory first, then whatever is not the echo of another worker's end."""
    return min(failures, key=lambda failure: (not failure.oom, _echo(failure), failure.rank), default=None)


def _echo(failure: Failure) -> bool:
    """Whether this only says that another worker has gone."""
    text = f"{failure.type} {failure.message}"
    return _SECONDARY.search(text) is not None and _PORT.search(text) is None


def _left_early(evidence: Evidence) -> str | None:
    """Who had gone before the others lost a connection: its script returned, or it went without a word and without
    the launcher's signal. Only a launcher that names the processes it ended can tell."""
    failed = {failure.rank for failure in evidence.failures}
    ended = [e for e in evidence.endings if e.reason == "returned" and e.rank not in failed]
    if ended:
        first = min(ended, key=lambda ending: ending.steps)
        return f"{_worker(first.rank, evidence)} ended with exit code 0 after {first.steps} steps, before the others"
    if not _ROOT_CAUSE.search(evidence.log):
        return None
    heard, told = _heard(evidence), {int(pid) for pid in _SIGNALLED.findall(evidence.log)}
    silent = [beat for beat in evidence.watched.beats if beat.rank not in heard and beat.pid not in told]
    if not silent:
        return None
    gone = min(silent, key=lambda beat: beat.steps)
    return f"{_worker(gone.rank, evidence)} left after {gone.steps} steps without a word (os._exit?)"


def _heard(evidence: Evidence) -> set[int]:
    """The workers that said how they ended."""
    return {ending.rank for ending in evidence.endings} | {failure.rank for failure in evidence.failures}


def _noticed_only(failure: Failure, evidence: Evidence) -> bool:
    """Whether the launcher knows no more than this echo: nobody died in its eyes, or the one that noticed."""
    died = _died(evidence.log)
    return died is None or (died[0] == failure.rank and died[1] >= 0)


def _failure_text(failure: Failure, evidence: Evidence) -> str:
    where = _innermost(failure.traceback, latest_last=True)
    steps = f" after {failure.step} steps" if failure.step else " before the first step"
    message = _shortened(failure.message.strip().splitlines()[0]) if failure.message.strip() else ""
    if _PORT.search(failure.message):
        port = re.search(r"port: (\d+)", failure.message)
        message = f"the port {port[1]} is in use" if port else "its port is in use"
        return f"{_worker(failure.rank, evidence)}: {message} ({failure.type}{', ' + where if where else ''})"
    text = f"{failure.type}: {message}" if message else failure.type
    gone = _wordless(evidence) if _echo(failure) and _left_early(evidence) is None else ""
    return f"{_worker(failure.rank, evidence)}: {text}{f' ({where})' if where else ''}{steps}{gone}"


def _wordless(evidence: Evidence) -> str:
    """Who took steps and then neither ended nor raised: what the others lost may be one of them."""
    heard = _heard(evidence)
    silent = [str(beat.rank) for beat in evidence.watched.beats if beat.rank not in heard]
    if not silent:
        return ""
    return f"; worker{'' if len(silent) == 1 else 's'} {', '.join(silent)} left without a word"


def _hang_text(evidence: Evidence) -> str:
    quiet = duration_text(evidence.limits.hang_s)
    beats, waits = evidence.watched.beats, _waits(evidence)
    if not beats:
        nothing = f"nothing heard for {duration_text(evidence.watched.wall_s)}"
        return f"no worker came to a first step; {nothing}{waits}"
    behind = _behind(beats, evidence.stacks)
    where = _innermost(_main_thread(evidence.stacks.get(behind.rank, "")), latest_last=False)
    place = f", standing in {where}" if where else _silence(behind, evidence)
    longer = "; if its steps take longer than that: --hang" if behind.steps < _A_RHYTHM else ""
    stands = f"{_worker(behind.rank, evidence)} is behind after {behind.steps} steps{place}"
    return f"no step for {quiet}: {stands}{waits}{longer}"


def _waits(evidence: Evidence) -> str:
    text = standstill_text(evidence.standings, workers=evidence.workers)
    return "" if text is None else f". {text[0].upper()}{text[1:]}"


def _timeout_text(evidence: Evidence) -> str:
    limit, beats = duration_text(evidence.limits.timeout_s), evidence.watched.beats
    if not beats:
        return f"not finished within {limit}: no worker came to a first step{_waits(evidence)}"
    behind = _behind(beats, evidence.stacks)
    where = _innermost(_main_thread(evidence.stacks.get(behind.rank, "")), latest_last=False)
    place = f", in {where}" if where else _silence(behind, evidence)
    return (
        f"not finished within {limit}: {_worker(behind.rank, evidence)} had done {behind.steps} steps{place}"
        f"{_waits(evidence)}"
    )


def _behind(beats: tuple[Heartbeat, ...], stacks: Mapping[int, str]) -> Heartbeat:
    """The worker that does not answer where others do; else the one with the fewest steps; of equals, one that is in
    the user's code, not in a collective."""
    answered = {beat.rank for beat in beats if stacks.get(beat.rank)}

    def waits(beat: Heartbeat) -> bool:
        frame = _FRAME.search(_main_thread(stacks.get(beat.rank, "")))
        return frame is None or _NOT_THE_USERS.search(frame[1]) is not None

    return min(
        beats, key=lambda beat: (bool(answered) and beat.rank in answered, beat.steps, waits(beat), beat.rank)
    )


def _silence(behind: Heartbeat, evidence: Evidence) -> str:
    """Said of workers that were asked for their stacks and did not answer: stopped, or gone."""
    answered = {rank for rank, text in evidence.stacks.items() if text}
    if evidence.stacks and not answered:
        return ", and no worker answers: are they stopped?"
    return ", and does not answer" if answered and behind.rank not in answered else ""


def _death(evidence: Evidence) -> tuple[State, str | None]:
    """The launcher returned, and no worker said why."""
    died = _died(evidence.log)
    if died is not None:
        rank, code = died
        steps = next((beat.steps for beat in evidence.watched.beats if beat.rank == rank), 0)
        cause = f"killed by {_signal_name(-code)}" if code < 0 else f"exited with code {code}"
        text = f"{_worker(rank, evidence)} {cause} after {steps} steps"
        if code > 0 and not steps:  # options that it does not know, data that are not there: it said so last
            last = _last_line(evidence.said.get(rank, ""), re.compile(r"\S"))
            text += f": {last}" if last else ""
        if code == -signal.SIGKILL and evidence.memory_kills:
            return "oom", f"{text}: the kernel ended it for want of memory"
        return "crashed", text
    if _PORT.search(evidence.log):
        return "crashed", f"a port is in use: {_last_line(evidence.log, _PORT)}"
    came, code_text = len(evidence.endings), f"exit code {evidence.watched.exit_code}"
    if came and came >= evidence.workers:
        return "short", f"the script ended without one measured step on {came} of {evidence.workers} workers"
    if came:
        return "crashed", f"{came} of {evidence.workers} workers took part and ended ({code_text})"
    if evidence.watched.exit_code == 0:
        left = min(evidence.watched.beats, key=lambda beat: beat.steps, default=None)
        if left is not None and left.steps:
            text = f"{_worker(left.rank, evidence)} left after {left.steps} steps without a word (os._exit?)"
            return "crashed", f"{text}, and what was measured went with it"
        return "short", f"the script ended without one optimizer step on any of {evidence.workers} workers"
    if evidence.watched.exit_code is not None and evidence.watched.exit_code < 0:
        which = _last_line(evidence.log, _LAUNCHER_KILLED)  # where several hosts have one each
        killed = which or f"the launcher was killed by {_signal_name(-evidence.watched.exit_code)}"
        text = f"{killed}, and its workers with it"
        if evidence.watched.exit_code == -signal.SIGKILL and evidence.memory_kills:
            return "oom", f"{text}: the kernel ended it for want of memory"
        return "crashed", text
    last = _last_line(evidence.log, re.compile(r"\S"))
    return "crashed", f"no worker came to its end ({code_text}){': ' + last if last else ''}"


def _died(log: str) -> tuple[int, int] | None:
    """Which worker died first and how, from the launcher's own words."""
    roots = [(int(root[1]), int(root[2])) for root in _ROOT_CAUSE.finditer(log)]
    if roots:  # each node's torchrun names one: a worker that was killed began it, the others only noticed
        return min(roots, key=lambda root: root[1] >= 0)
    spawn = _SPAWN_DEATH.search(log)
    if spawn is not None:
        code = -getattr(signal, spawn[2], signal.SIGKILL) if spawn[2] else int(spawn[3])
        return int(spawn[1]), code
    return None


def _main_thread(stacks: str) -> str:
    """Of the stacks of all threads that of the first, which comes last."""
    return _THREAD.split(stacks)[-1]


def _innermost(text: str, *, latest_last: bool) -> str | None:
    """The innermost frame of the user's own code: train.py:31."""
    frames = [match for match in _FRAME.finditer(text) if not _NOT_THE_USERS.search(match[1])]
    if not frames:
        return None
    frame = frames[-1] if latest_last else frames[0]
    return f"{frame[1].rpartition('/')[2]}:{frame[2]}"


def _last_line(text: str, pattern: re.Pattern[str]) -> str:
    lines = [line.strip() for line in text.splitlines() if pattern.search(line)]
    return _shortened(lines[-1]) if lines else ""


def _shortened(text: str) -> str:
    """As it can be printed on any terminal: without colours, control characters and broken letters, and not long."""
    plain = "".join(c if c.isprintable() else "?" for c in _COLOUR.sub("", text).replace("\t", " "))
    return plain if len(plain) <= _LONGEST_TEXT else plain[: _LONGEST_TEXT - 1] + "…"


def _worker(rank: int, evidence: Evidence) -> str:
    return f"worker {rank} of {evidence.workers}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
