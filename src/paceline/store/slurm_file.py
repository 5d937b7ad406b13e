"""The jobs that a study was handed to Slurm with: slurm/jobs.json, the newest last.

History of the format: 1 first format.
"""

from __future__ import annotations

from paceline.core.errors import StudyError
from paceline.core.json_text import json_of
from paceline.store.atomic import make_folder, write_json
from paceline.store.paths import StudyFolder

__all__ = ["add_job", "newest_job"]

FORMAT = 1
_FILE = "jobs.json"


def add_job(folder: StudyFolder, job_id: str, *, date: str) -> None:
    """Remember a job, after those before it."""
    make_folder(folder.slurm)
    write_json(
        folder.slurm / _FILE, {"format": FORMAT, "jobs": [*_jobs(folder), {"id": job_id, "submitted": date}]}
    )


def newest_job(folder: StudyFolder) -> str | None:
    """The id of the last job; None when there was none."""
    jobs = _jobs(folder)
    return str(jobs[-1]["id"]) if jobs else None


def _jobs(folder: StudyFolder) -> list[dict[str, str]]:
    path = folder.slurm / _FILE
    try:
        held = json_of(path.read_text(encoding="utf-8"))
        return [{"id": str(job["id"]), "submitted": str(job["submitted"])} for job in held["jobs"]]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as problem:
        hint = f"remove {path}; a live job is then found by its name"
        raise StudyError(f"{path} is damaged: {problem!r}", hint=hint) from None
