"""The folder of one trial: prepared, committed by its trial.json, read back, or removed if it never was."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from paceline.core.errors import StudyError
from paceline.core.json_data import record_from
from paceline.core.json_text import json_of, refuse_newer
from paceline.plan.config_files import copies, edited, file_key, is_file_key
from paceline.records import STATES, Point, Study, Trial, TrialResult
from paceline.store.atomic import flush_folder, made_folder, make_folder, write_json, write_text
from paceline.store.digests import OWN_DIGEST, digests_of, own_digest, what_changed
from paceline.store.paths import StudyFolder
from paceline.store.telemetry_files import telemetry
from paceline.store.worker_files import look_again, unread, written

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
    "write_config_copies",
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
        entry = copy / "enter" / "sitecustomize_entry.py"
        if entry.exists():
            shutil.copyfile(entry, path / "agent" / "sitecustomize.py")
    return path


def write_config_copies(study: Study, point: Point, trial: Path) -> None:
    """Each varied file once, with every value that this point changes in it."""
    for name, copy in copies(point, str(trial)).items():
        text = (Path(study.directory or ".") / name).read_text(encoding="utf-8")
        for flag, value in point.varied:
            if is_file_key(flag) and file_key(flag)[0] == name:
                text = edited(text, name, file_key(flag)[1], value)
        Path(copy).parent.mkdir(exist_ok=True)
        write_text(Path(copy), text)


def commit(folder: StudyFolder, result: TrialResult, *, started: str) -> TrialResult:
    """Write the mark that makes this trial complete; the result as it will be read back. All else is in its folder."""
    data = {
        "format": FORMAT,
        "trial": asdict(result.trial),
        "state": result.state,
        "reason": result.reason,
        "wall_s": result.wall_s,
        "started": started,
        "log_tail": result.log_tail,
        "script_sha256": result.script_sha256,
        "files": digests_of(folder.trial(result.trial.id)),
    }
    data = json.loads(json.dumps(data))  # as it will be read back: tuples are lists
    write_json(folder.trial(result.trial.id) / _COMMIT, {**data, OWN_DIGEST: own_digest(data)})
    flush_folder(folder.trials)
    return replace(result, started=started)


def is_complete(folder: StudyFolder, trial_id: str) -> bool:
    """Whether a trial has its commit mark as the server of a network file system has it, not as it was once seen."""
    look_again(folder.trials)
    look_again(folder.trial(trial_id))
    return _is_marked(folder.trial(trial_id))


def complete_trials(folder: StudyFolder) -> list[Path]:
    """The folders of complete trials, by name."""
    return [path for path in _trial_folders(folder) if _is_marked(path)]


def read_results(folder: StudyFolder, known: Sequence[TrialResult] = ()) -> tuple[TrialResult, ...]:
    """Every complete trial, in the order in which they were run. The workers' files of `known` are not read again."""
    found = []
    for path in complete_trials(folder):
        result = read_result(path, known)
        if result.trial.id != path.name:  # a copy that somebody made
            raise StudyError(
                f"{path / 'trial.json'} says run {result.trial.id}, which would be counted twice",
                hint=f"move the folder out of {folder.trials}",
            )
        found.append(result)
    return tuple(sorted(found, key=lambda result: result.started or ""))


def read_result(trial: Path, known: Sequence[TrialResult] = ()) -> TrialResult:
    """How one complete trial ended; a StudyError where its folder is damaged."""
    try:
        data = _mark(trial)
        refuse_newer(trial / _COMMIT, data["format"], known=FORMAT)
        name, started = _trial_of(data).id, str(data["started"])
        held = next((one for one in known if (one.trial.id, one.started) == (name, started)), None)
        return held or _result(data, trial, started=started)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise StudyError(
            f"{trial / _COMMIT} is damaged: {problem!r}",
            hint=f"remove the folder {trial}; the run is then repeated",
        ) from problem


def first_started(folder: StudyFolder) -> str | None:
    """When the first complete trial began."""
    dates = []
    for path in complete_trials(folder):
        try:
            dates.append(str(_mark(path)["started"]))
        except (OSError, ValueError, KeyError, TypeError):  # reading its result says what is wrong with it
            continue
    return min(dates, default=None)


def remove_incomplete(folder: StudyFolder) -> tuple[str, ...]:
    """Remove the folders of trials that were never committed; their names."""
    lost = [path for path in _trial_folders(folder) if not _is_marked(path)]
    for path in lost:
        shutil.rmtree(path)
    return tuple(path.name for path in lost)


def set_aside_failed(folder: StudyFolder, results: Sequence[TrialResult]) -> tuple[TrialResult, ...]:
    """Move failed trials out of the way (to failed/), so that they are repeated; the results that stay."""
    failed = [result.trial.id for result in results if result.state != "ok"]
    aside = folder.root / "failed"
    for trial_id in failed:
        make_folder(aside)
        number = sum(1 for path in aside.iterdir() if path.name.startswith(f"{trial_id}.")) + 1
        folder.trial(trial_id).rename(aside / f"{trial_id}.{number}")
    return tuple(result for result in results if result.state == "ok")


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


def _mark(trial: Path) -> dict[str, object]:
    """What trial.json says; a ValueError where it is no object."""
    data = json_of((trial / _COMMIT).read_text(encoding="utf-8"))
    if not isinstance(data, dict):
        raise ValueError("it holds no object")
    return data


def _trial_of(data: Mapping[str, object]) -> Trial:
    """The trial that a commit mark is about; a ValueError where nobody could have run it."""
    trial = record_from(Trial, data["trial"])
    if min(trial.point.workers, trial.point.nodes, trial.repeat) < 1:
        raise ValueError(f"{trial.point.workers} workers on {trial.point.nodes} nodes, repeat {trial.repeat}")
    return trial


def _damaged(data: Mapping[str, object], changed: Sequence[str], *, started: str) -> TrialResult:
    """A run that is not used: what it left is no longer what was measured."""
    more = f", and {len(changed) - 1} more" if len(changed) > 1 else ""
    trial = _trial_of(data)
    return TrialResult(trial, "damaged", f"{changed[0]}{more}", (), 0.0, started=started)


def _result(data: Mapping[str, object], path: Path, *, started: str) -> TrialResult:
    if changed := what_changed(path, data):
        return _damaged(data, changed, started=started)
    state, reason, wall_s = data["state"], data["reason"], data["wall_s"]
    if state not in STATES or not isinstance(wall_s, int | float) or not math.isfinite(wall_s):
        raise ValueError(f"state {state!r} after {wall_s!r} s")
    trial = _trial_of(data)
    unknown = state == "ok" and "files" not in data
    return TrialResult(
        trial=trial,
        state=next(known for known in STATES if known == state),
        reason=None if reason is None else str(reason),
        workers=written(path).records,
        wall_s=float(wall_s),
        log_tail=str(data.get("log_tail", "")),
        telemetry=telemetry(path),
        script_sha256=str(digest) if (digest := data.get("script_sha256")) else None,
        started=started,
        unread=unread(path, workers=trial.point.workers) if unknown else (),
    )
