"""How far a study is, from names and times of its files alone: cheap enough to ask every second of 10,000 trials.

A committed trial never changes, so its trial.json is looked for until it is there and never again.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from paceline.core.json_text import json_of
from paceline.serve.folders import Found

__all__ = ["Standing", "Watch", "Watches"]

_FRESH_S = 0.4


@dataclass(frozen=True, slots=True)
class Standing:
    """Trials that are complete and planned, whether a desk on this machine works on it, and a mark of its content."""

    complete: int
    planned: int | None
    running: bool
    mark: tuple[object, ...]

    @property
    def text(self) -> str:
        count = f"{self.complete:,}"
        if self.planned is not None:
            count += f" of {self.planned:,}"
        trials = f"{count} run{'' if count == '1' else 's'}"
        return f"{trials}, running" if self.running else trials


@dataclass(slots=True)
class Watch:
    """Remembers which trials of one study are complete."""

    study: Found
    _complete: set[str] = field(default_factory=set)
    _plan: tuple[int, int | None] | None = None

    def standing(self) -> Standing:
        """How far the study is now."""
        names = _names(self.study.path / "trials")
        self._complete &= names
        for name in names - self._complete:
            if (self.study.path / "trials" / name / "trial.json").exists():
                self._complete.add(name)
        marks = tuple(_mtime_ns(self.study.path / name) for name in ("study.toml", "analysis.json"))
        complete = len(self._complete)
        return Standing(
            complete,
            self._planned(),
            _locked(self.study.path / ".lock"),
            (complete, hash(frozenset(self._complete)), *marks),
        )

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


def _locked(path: Path) -> bool:
    """Whether a process of this machine holds the lock. Looked up, not tried: trying could cost a desk its start."""
    try:
        inode = f":{os.stat(path).st_ino} "
        with open("/proc/locks", encoding="ascii", errors="replace") as locks:
            return any(" FLOCK " in line and inode in line for line in locks)
    except OSError:
        return False
