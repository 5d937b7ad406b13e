"""Files that are either the old or the new, never half: written beside, flushed to the disk, renamed."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
from pathlib import Path

from paceline.core.errors import StudyError

__all__ = ["flush_folder", "made_folder", "make_folder", "remedy", "write_bytes", "write_json", "write_text"]

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


def write_text(path: Path, text: str) -> None:
    """Replace the file's content; after a crash at any moment it is the old or the new text.

    What UTF-8 has no bytes for (half of a pair, in a worker's message about a file name) is written as JSON escapes it.
    """
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: Path, content: bytes) -> None:
    """The same for bytes."""
    # on a file system that is shared another machine may have a process of the same number
    beside = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.part")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        flush_folder(path.parent)
    except OSError as problem:
        with contextlib.suppress(OSError):  # what is half written would keep a full disk full
            beside.unlink()
        if isinstance(problem, FileNotFoundError):
            raise StudyError(
                f"cannot write {path}: {path.parent} is not there, or was moved meanwhile",
                hint="make that folder, or name it where it is now: a study goes on there",
            ) from problem
        raise StudyError(f"cannot write {path}: {problem.strerror}", hint=remedy(problem)) from problem


def write_json(path: Path, data: object) -> None:
    """The same for JSON data. NaN is refused: unknown is null."""
    write_text(path, json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def made_folder(path: Path) -> bool:
    """Make one folder; False when it is there already, which only making tells: a client of NFS may deny it."""
    try:
        path.mkdir()
    except FileExistsError:
        return False
    except OSError as problem:
        raise _no_folder(path, problem) from problem
    return True


def make_folder(path: Path) -> None:
    """Make a folder and those above it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise _no_folder(path, problem) from problem


def _no_folder(path: Path, problem: OSError) -> StudyError:
    return StudyError(f"cannot make the folder {path}: {problem.strerror}", hint=remedy(problem))


def flush_folder(path: Path) -> None:
    """Make renames and new names in this folder survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remedy(problem: OSError) -> str:
    """What a user can do about a file that could not be written."""
    if problem.errno in _FULL:
        return "free space on this disk, then the same command again goes on"
    if problem.errno in _FORBIDDEN:
        return "write to another folder, or to a copy of this one; paceline show only reads"
    return "check the disk and the folder"
