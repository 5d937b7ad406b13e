"""The folder of one trial: prepared, committed by its trial.json, read back, or removed if it never was."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from paceline.errors import StudyError
from paceline.records import STATES, Trial, TrialResult
from paceline.records_json import record_from
from paceline.store.atomic import flush_folder, made_folder, make_folder, write_json
from paceline.store.formats import refuse_newer
from paceline.store.paths import StudyFolder
from paceline.store.telemetry_files import telemetry
from paceline.store.worker_files import look_again, worker_records

__all__ = [
    "commit",
    "complete_trials",
    "first_started",
    "is_complete",
    "prepare",
    "read_result",
    "read_results",
    "remove_incomplete",
    "set_aside_failed",
]

FORMAT = 1
_COMMIT = "trial.json"


def prepare(folder: StudyFolder, trial: Trial, *, packages: Sequence[Path]) -> Path:
    """An empty trial folder with its own copy of the code that will measure, and of our own workloads."""
    path = folder.trial(trial.id)
    make_folder(folder.trials)
    if not made_folder(path):
        shutil.rmtree(path)
    make_folder(path / "agent")
    for package in packages:
        copy = path / "agent" / package.name
        shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        entry = copy / "sitecustomize_entry.py"
        if entry.exists():
            shutil.copyfile(entry, path / "agent" / "sitecustomize.py")
    return path


def commit(folder: StudyFolder, result: TrialResult, *, started: str) -> None:
    """Write the mark that makes this trial complete. Everything else is already in its folder."""
    data = {
        "format": FORMAT,
        "trial": asdict(result.trial),
        "state": result.state,
        "reason": result.reason,
        "wall_s": result.wall_s,
        "started": started,
        "log_tail": result.log_tail,
        "script_sha256": result.script_sha256,
    }
    write_json(folder.trial(result.trial.id) / _COMMIT, data)
    flush_folder(folder.trials)


def is_complete(folder: StudyFolder, trial_id: str) -> bool:
    """Whether a trial has its commit mark as the server of a network file system has it, not as it was once seen."""
    look_again(folder.trials)
    look_again(folder.trial(trial_id))
    return _is_marked(folder.trial(trial_id))


def complete_trials(folder: StudyFolder) -> list[Path]:
    """The folders of complete trials, by name."""
    return [path for path in _trial_folders(folder) if _is_marked(path)]


def read_results(folder: StudyFolder) -> tuple[TrialResult, ...]:
    """Every complete trial, in the order in which they were run."""
    found = []
    for path in complete_trials(folder):
        started, result = read_result(path)
        if result.trial.id != path.name:  # a copy that somebody made
            raise StudyError(
                f"{path} holds trial {result.trial.id}, which would be counted twice",
                hint=f"move the folder out of {folder.trials}",
            )
        found.append((started, result))
    return tuple(result for _, result in sorted(found, key=lambda pair: pair[0]))


def read_result(trial: Path) -> tuple[str, TrialResult]:
    """When one complete trial began, and how it ended; a StudyError where its folder is damaged."""
    try:
        data = json.loads((trial / _COMMIT).read_text(encoding="utf-8"))
        refuse_newer(trial / _COMMIT, data["format"], known=FORMAT)
        return str(data["started"]), _result(data, trial)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise StudyError(
            f"{trial / _COMMIT} is damaged: {problem!r}",
            hint=f"remove the folder {trial}; the trial is then repeated",
        ) from problem


def first_started(folder: StudyFolder) -> str | None:
    """When the first complete trial began."""
    dates = []
    for path in complete_trials(folder):
        try:
            dates.append(str(json.loads((path / _COMMIT).read_text(encoding="utf-8"))["started"]))
        except (OSError, ValueError, KeyError, TypeError):  # reading its result says what is wrong with it
            continue
    return min(dates, default=None)


def remove_incomplete(folder: StudyFolder) -> tuple[str, ...]:
    """Remove the folders of trials that were never committed; their names."""
    lost = [path for path in _trial_folders(folder) if not _is_marked(path)]
    for path in lost:
        shutil.rmtree(path)
    return tuple(path.name for path in lost)


def set_aside_failed(folder: StudyFolder) -> tuple[str, ...]:
    """Move failed trials out of the way (to failed/), so that they are repeated; their names."""
    failed = [result.trial.id for result in read_results(folder) if result.state != "ok"]
    aside = folder.root / "failed"
    for trial_id in failed:
        make_folder(aside)
        number = sum(1 for path in aside.iterdir() if path.name.startswith(f"{trial_id}.")) + 1
        folder.trial(trial_id).rename(aside / f"{trial_id}.{number}")
    return tuple(failed)


def _trial_folders(folder: StudyFolder) -> list[Path]:
    try:
        with os.scandir(folder.trials) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_dir())
    except FileNotFoundError:
        return []


def _is_marked(trial: Path) -> bool:
    """By listing: a client of a network file system goes on denying a name that it was asked for too early."""
    try:
        return _COMMIT in os.listdir(trial)
    except FileNotFoundError:
        return False


def _result(data: Mapping[str, object], path: Path) -> TrialResult:
    state, reason, wall_s = data["state"], data["reason"], data["wall_s"]
    if state not in STATES or not isinstance(wall_s, int | float) or not math.isfinite(wall_s):
        raise ValueError(f"state {state!r} after {wall_s!r} s")
    return TrialResult(
        trial=record_from(Trial, data["trial"]),
        state=next(known for known in STATES if known == state),
        reason=None if reason is None else str(reason),
        workers=worker_records(path),
        wall_s=float(wall_s),
        log_tail=str(data.get("log_tail", "")),
        telemetry=telemetry(path),
        script_sha256=str(digest) if (digest := data.get("script_sha256")) else None,
    )
