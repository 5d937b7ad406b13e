"""Which task of a job array works on which trial: slurm/claims/TRIAL.1, then TRIAL.2 where the first task was lost.

A claim is made whole beside and linked to its name: on every file system that has hard links, NFS too, exactly one
of several who try at once succeeds. No claim is ever removed while tasks live. Who finds that the holder is gone
claims the next number, which again only one can; taking away a dead one's claim could take away the next one's.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from paceline.core.errors import StudyError
from paceline.core.json_text import json_of
from paceline.store.atomic import make_folder
from paceline.store.paths import StudyFolder

__all__ = ["Holder", "claim", "clear_claims", "holders", "tasks_with"]


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a claim: a task of an array, and how often Slurm had put it back until then."""

    task: str  # 12_3
    restarts: int
    name: str  # of the job: numbers begin again on a new controller


def holders(folder: StudyFolder) -> dict[str, tuple[int, Holder | None]]:
    """The newest claim on every trial, with its number; the holder None where the file cannot be read."""
    newest: dict[str, int] = {}
    for name in _names(folder):
        trial_id, _, number = name.rpartition(".")
        if trial_id and number.isdigit():
            newest[trial_id] = max(int(number), newest.get(trial_id, 0))
    return {trial_id: (number, _held(folder, trial_id, number)) for trial_id, number in newest.items()}


def tasks_with(folder: StudyFolder, trial_id: str) -> list[str]:
    """The tasks that ever claimed a trial, each once."""
    numbers = [name.rpartition(".") for name in _names(folder)]
    held = [_held(folder, trial_id, int(number)) for own, _, number in numbers if own == trial_id]
    return sorted({holder.task for holder in held if holder is not None})


def claim(folder: StudyFolder, trial_id: str, number: int, holder: Holder) -> bool:
    """Claim a trial for this holder; False when somebody else has this number already."""
    make_folder(folder.claims)
    beside = folder.claims / f".{trial_id}.{holder.task}.{holder.restarts}"
    try:
        with open(beside, "w", encoding="utf-8") as file:
            file.write(json.dumps(asdict(holder)))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(beside, _path(folder, trial_id, number))
        except FileExistsError:
            # an answer of NFS that was lost is asked for again, and then finds what the first call has made
            return os.stat(beside).st_nlink == 2
        finally:
            beside.unlink()
    except OSError as problem:
        raise StudyError(
            f"cannot claim a run in {folder.claims}: {problem.strerror}",
            hint="--array 0 needs no claims: one allocation does every run",
        ) from problem
    return True


def clear_claims(folder: StudyFolder) -> None:
    """Forget every claim. Only while no task lives. The folder stays: nodes may have it in mind."""
    for name in _names(folder):
        (folder.claims / name).unlink(missing_ok=True)


def _names(folder: StudyFolder) -> list[str]:
    try:
        return os.listdir(folder.claims)
    except FileNotFoundError:
        return []


def _held(folder: StudyFolder, trial_id: str, number: int) -> Holder | None:
    try:
        data = json_of(_path(folder, trial_id, number).read_text(encoding="utf-8"))
        return Holder(str(data["task"]), int(data["restarts"]), str(data["name"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _path(folder: StudyFolder, trial_id: str, number: int) -> Path:
    return folder.claims / f"{trial_id}.{number}"
