"""The watchdog of one trial: it ends when its processes end, when they stop stepping, or when time is up.

before the first step    max(hang_s, 180 s): importing, compiling and loading data take what they take
after it                 hang_s without one step of any worker: hung; the stacks of all workers are asked for
                         (both later by lag_s, where this desk may see a step late)
a worker failed          the others get 10 s to notice, for a collective would wait for ever
all workers finished     20 s for the launcher to return
the folder is gone       5 s, which a network file system may take to find it again; then it was moved or removed
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from paceline.core.errors import StudyError
from paceline.launch.launcher import Launch
from paceline.run.clock import Clock
from paceline.store.worker_files import Heartbeat, failures, heartbeats, stacks

__all__ = ["Limits", "Watched", "watch"]

_POLL_S = 0.1
_LOOK_S = 0.5  # looking costs the workers a little CPU
_START_S = 180.0
_NOTICE_S = 10.0
_RETURN_S = 20.0
_GONE_S = 5.0
_STACKS_S = 2.0
_FINISHED = 2


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a trial may take, and how long it may go without a step."""

    timeout_s: float
    hang_s: float
    lag_s: float = (
        0.0  # how late the desk may see what a worker wrote: another machine, a network file system
    )


@dataclass(frozen=True, slots=True)
class Watched:
    """How a trial came to its end, as seen from outside."""

    how: Literal["exited", "hung", "timeout"]
    exit_code: int | None
    wall_s: float
    beats: tuple[Heartbeat, ...]


def watch(
    launch: Launch,
    trial_dir: Path,
    *,
    workers: int,
    limits: Limits,
    clock: Clock,
    stepped: Callable[[tuple[Heartbeat, ...]], None],
) -> Watched:
    """Wait for the end of a trial. Never ends it: the caller does, whatever happens here."""
    began = moved = looked = clock.monotonic_s()
    beats: tuple[Heartbeat, ...] = ()
    failed: float | None = None
    finished: float | None = None
    gone: float | None = None
    while True:
        code, now = launch.exit_code(), clock.monotonic_s()
        if code is not None:
            return Watched("exited", code, now - began, heartbeats(trial_dir))
        if now - looked >= _LOOK_S:
            looked, before, beats = now, beats, heartbeats(trial_dir)
            if _steps(beats) != _steps(before):
                moved = now
            if failed is None and failures(trial_dir):
                failed = now
            if finished is None and len(beats) >= workers and all(beat.phase == _FINISHED for beat in beats):
                finished = now
            gone = None if trial_dir.is_dir() else gone or now
            stepped(beats)
        if _past(gone, _GONE_S, now):
            raise StudyError(
                f"{trial_dir} is not there any more: the study was moved or removed while it ran",
                hint="a study goes on where it is now; the runs that it holds are kept",
            )
        if _past(failed, _NOTICE_S, now) or _past(finished, _RETURN_S, now):
            return Watched("exited", None, now - began, beats)
        if now - began >= limits.timeout_s:
            _ask_stacks(launch, trial_dir, beats, clock)
            return Watched("timeout", None, now - began, beats)
        quiet_s = limits.lag_s + (limits.hang_s if any(_steps(beats)) else max(limits.hang_s, _START_S))
        if now - moved >= quiet_s and failed is None and finished is None:
            _ask_stacks(launch, trial_dir, beats, clock)
            return Watched("hung", None, now - began, beats)
        clock.pause(_POLL_S)


def _ask_stacks(launch: Launch, trial_dir: Path, beats: tuple[Heartbeat, ...], clock: Clock) -> None:
    """Ask every worker where it is, and wait a little for the answers."""
    asked = sum(launch.ask_stacks(beat.pid) for beat in beats)
    until = clock.monotonic_s() + _STACKS_S
    while sum(1 for text in stacks(trial_dir).values() if text) < asked and clock.monotonic_s() < until:
        clock.pause(_POLL_S)


def _steps(beats: tuple[Heartbeat, ...]) -> tuple[int, ...]:
    return tuple(beat.steps for beat in beats)


def _past(since: float | None, allowed_s: float, now: float) -> bool:
    return since is not None and now - since >= allowed_s
