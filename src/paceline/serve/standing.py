"""How far a study is, from names and times of its files: cheap enough to ask every second of 10,000 trials.

A committed trial never changes, so its trial.json is looked for until it is there, read then, and never again.

eta   median wall seconds of complete trials x trials left, less the time since the last one was complete
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from threading import Lock

from paceline.core.json_text import json_of
from paceline.core.units import duration_text
from paceline.serve.folders import Found
from paceline.store.worker_files import heartbeats

__all__ = ["Standing", "Watch", "Watches", "is_running"]

_FRESH_S = 0.4


@dataclass(frozen=True, slots=True)
class Standing:
    """Trials that are complete, planned and failed, whether a desk on this machine works on it and on which trial,
    the seconds that are left as far as is known, and a mark of its content."""

    complete: int
    planned: int | None
    running: bool
    mark: tuple[object, ...]
    failed: int = 0
    trial: str | None = None
    steps: int = 0
    eta_s: float | None = None

    @property
    def text(self) -> str:
        """How far, and how it is."""
        count = f"{self.complete:,}"
        if self.planned is not None:
            count += f" of {self.planned:,}"
        trials = f"{count} run{'' if count == '1' else 's'}"
        lost = f", {'all' if self.all_failed else f'{self.failed:,}'} failed" if self.failed else ""
        return f"{trials}{lost}, running" if self.running else f"{trials}{lost}"

    @property
    def now(self) -> str | None:
        """What it is doing."""
        if not self.running:
            return None
        doing = "starting" if self.trial is None else self.trial
        doing += f", step {self.steps}" if self.steps else ""
        left = "" if self.eta_s is None else f", about {duration_text(self.eta_s)} left"
        return f"{doing}{left}"

    @property
    def all_failed(self) -> bool:
        """Nothing was measured, and not for want of trying."""
        return 0 < self.complete == self.failed


@dataclass(slots=True)
class Watch:
    """Remembers which trials of one study are complete."""

    study: Found
    _complete: set[str] = field(default_factory=set)
    _failed: set[str] = field(default_factory=set)
    _walls_s: list[float] = field(default_factory=list)
    _moved_s: float = field(
        default_factory=time.monotonic
    )  # when the last one was complete, or the watch began
    _plan: tuple[int, int | None] | None = None

    def standing(self) -> Standing:
        """How far the study is now."""
        names = _names(self.study.path / "trials")
        self._complete &= names
        self._failed &= names
        for name in names - self._complete:
            if (self.study.path / "trials" / name / "trial.json").exists():
                self._complete.add(name)
                self._read(name)
                self._moved_s = time.monotonic()
        marks = tuple(_mtime_ns(self.study.path / name) for name in ("study.toml", "analysis.json"))
        complete, planned = len(self._complete), self._planned()
        running = _locked(self.study.path / ".lock")
        trial, steps = self._under_way(names) if running else (None, 0)
        return Standing(
            complete,
            planned,
            running,
            (complete, hash(frozenset(self._complete)), running, *marks),
            len(self._failed),
            trial,
            steps,
            self._eta_s(planned, complete) if running else None,
        )

    def _read(self, name: str) -> None:
        """How a trial ended and how long it took; one that cannot be read counts as complete and no more."""
        path = self.study.path / "trials" / name / "trial.json"
        if path.is_symlink() or path.parent.is_symlink():
            return
        try:
            told = json_of(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return
        if isinstance(told, dict):
            if told.get("state") != "ok":
                self._failed.add(name)
            if isinstance(wall_s := told.get("wall_s"), int | float):
                self._walls_s.append(float(wall_s))

    def _under_way(self, names: set[str]) -> tuple[str | None, int]:
        """The trial that was begun last and is not complete, and the steps of its slowest worker."""
        begun = [
            (when, name)
            for name in names - self._complete
            if (when := _mtime_ns(self.study.path / "trials" / name)) is not None
        ]
        if not begun:
            return None, 0
        name = max(begun)[1]
        beats = heartbeats(self.study.path / "trials" / name)
        return name, min((beat.steps for beat in beats), default=0)

    def _eta_s(self, planned: int | None, complete: int) -> float | None:
        if planned is None or not self._walls_s or planned <= complete:
            return None
        left_s = median(self._walls_s) * (planned - complete) - (time.monotonic() - self._moved_s)
        return max(0.0, left_s)

    def _planned(self) -> int | None:
        path = self.study.path / "plan.json"
        changed = _mtime_ns(path)
        if changed is None:
            return None
        if self._plan is None or self._plan[0] != changed:
            self._plan = (changed, _trials_in(path))
        return self._plan[1]


class Watches:
    """The standing of many studies, for many who ask at once: each folder is looked at once in a while."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._watches: dict[Found, Watch] = {}
        self._seen: dict[Found, tuple[float, Standing]] = {}

    def standing(self, study: Found) -> Standing:
        """How far the study is, as of now or a moment ago."""
        with self._lock:
            at_s, known = self._seen.get(study, (0.0, None))
            if known is None or time.monotonic() - at_s > _FRESH_S:
                known = self._watches.setdefault(study, Watch(study)).standing()
                self._seen[study] = (time.monotonic(), known)
            return known


def _names(folder: Path) -> set[str]:
    try:
        return set(os.listdir(folder))
    except OSError:
        return set()


def _mtime_ns(path: Path) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None


def _trials_in(plan: Path) -> int | None:
    try:
        trials = json_of(plan.read_text(encoding="utf-8"))["trials"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return len(trials) if isinstance(trials, list) else None


def is_running(study: Path) -> bool:
    """Whether a desk on this machine works on the study in this folder."""
    return _locked(study / ".lock")


def _locked(path: Path) -> bool:
    """Whether a process of this machine holds the lock. Looked up, not tried: trying could cost a desk its start."""
    try:
        inode = f":{os.stat(path).st_ino} "
        with open("/proc/locks", encoding="ascii", errors="replace") as locks:
            return any(" FLOCK " in line and inode in line for line in locks)
    except OSError:
        return False
