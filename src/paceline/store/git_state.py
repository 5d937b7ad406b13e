"""Which version of the user's code was measured: noted when trials begin, not when they are read.

source.json   {"format": 1, "git": [{"commit": …, "changed": true}, …]}: one entry per version that was measured
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from paceline.core.json_text import json_of
from paceline.records import Study
from paceline.store.atomic import write_json
from paceline.store.paths import StudyFolder

__all__ = ["git_states", "note_git_state", "script_sha256"]

FORMAT = 1
_LONGEST_S = 5.0


def note_git_state(folder: StudyFolder, study: Study) -> None:
    """Add the commit of the script's folder to source.json. Without git, or outside a repository, nothing is noted."""
    here = _code_folder(study)
    state = None if here is None else _state(here)
    known = _noted(folder)
    if state is not None and (not known or known[-1] != state):
        write_json(_file(folder), {"format": FORMAT, "git": [*known, state]})


def git_states(folder: StudyFolder) -> list[str]:
    """Every version that was measured, in words: the commit, and whether files differed from it."""
    return [
        f"{state.get('commit')}{', with changes that are not committed' if state.get('changed') else ''}"
        for state in _noted(folder)
    ]


def script_sha256(study: Study) -> str | None:
    """What the script is now, in 64 letters: one that is edited between two trials is another script."""
    if study.workload.kind != "script":
        return None
    try:
        return hashlib.sha256((Path(study.directory or ".") / study.workload.name).read_bytes()).hexdigest()
    except OSError:
        return None


def _code_folder(study: Study) -> Path | None:
    directory = Path(study.directory or ".")
    if study.workload.kind == "script":
        return (directory / study.workload.name).parent
    return directory if study.workload.kind == "module" else None  # a workload of ours has our version


def _state(folder: Path) -> dict[str, object] | None:
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit.strip(), "changed": None if changes is None else bool(changes.strip())}


def _git(folder: Path, *words: str) -> str | None:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LONGEST_S,
            env=environment,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None


def _noted(folder: StudyFolder) -> list[dict[str, object]]:
    try:
        known = json_of(_file(folder).read_text(encoding="utf-8"))["git"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [state for state in known if isinstance(state, dict)] if isinstance(known, list) else []


def _file(folder: StudyFolder) -> Path:
    return folder.root / "source.json"
