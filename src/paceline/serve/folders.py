"""Which studies lie under a folder, and nothing outside it: names come from looking, never from a request.

A study is a folder with study.toml or analysis.json. Where a link leads out of the folder, there is nothing to see.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Found", "confined", "studies_under"]

_MARKS = ("study.toml", "analysis.json")
_DEEPEST = 3
_MOST_FOLDERS = 20_000  # looked into, so that a home directory by mistake does not keep the page waiting


@dataclass(frozen=True, slots=True)
class Found:
    """One study: its name, which is its path below the folder that is served, and where it lies."""

    name: str
    path: Path


def studies_under(root: Path) -> tuple[Found, ...]:
    """Every study at or below `root`, the latest changed first; a study's own folder is called by its name."""
    top = root.resolve()
    if _is_study(top, top):
        return (Found(top.name, top),)
    found = [(_changed(path), Found(str(path.relative_to(top)), path)) for path in _below(top)]
    return tuple(study for _, study in sorted(found, key=lambda item: (-item[0], item[1].name)))


def confined(path: Path, root: Path) -> bool:
    """Whether the path, links followed, lies inside root."""
    try:
        return path.resolve(strict=True).is_relative_to(root.resolve())
    except (OSError, RuntimeError):
        return False


def _below(top: Path) -> Iterator[Path]:
    waiting, looked = [(top, 0)], 0
    while waiting and looked < _MOST_FOLDERS:
        folder, depth = waiting.pop()
        looked += 1
        if depth and _is_study(folder, top):
            yield folder
            continue
        if depth < _DEEPEST:
            waiting += [(Path(entry), depth + 1) for entry in _folders(folder)]


def _folders(path: Path) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [e.path for e in entries if not e.name.startswith(".") and e.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _is_study(path: Path, top: Path) -> bool:
    return any(confined(path / mark, top) for mark in _MARKS)


def _changed(path: Path) -> float:
    times = []
    for name in (*_MARKS, "trials"):
        try:
            times.append(os.stat(path / name).st_mtime)
        except OSError:
            continue
    return max(times, default=0.0)
