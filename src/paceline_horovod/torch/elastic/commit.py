"""The file of the last commit: private to this user, and bound to one launch.

    FOLDER/horovod-UID/commit-LAUNCH.pt     FOLDER: PACELINE_HOROVOD_STATE, else ~/.cache/paceline

A pickle runs whatever it was made to run, and temporary folders are everybody's. So the folder must be this user's with
mode 0700 and the file with 0600, links are not followed, only tensors and plain values are read, and the file must
say that this launch wrote it. Each of these is enough alone; together they do not hang on a name being hard to guess.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import torch

from paceline_horovod.common.exceptions import CommitRefused
from paceline_horovod.torch.elastic.plain import as_it_was, plain

__all__ = ["commit_file", "discard", "may_restart", "read", "write"]

_NOT_FOLLOWED = getattr(os, "O_NOFOLLOW", 0)


def may_restart() -> bool:
    """Will torchrun start the workers again when one is lost?"""
    return int(os.environ.get("TORCHELASTIC_MAX_RESTARTS") or 0) > 0


def commit_file() -> Path:
    """Where this launch's commit lies: the same file for all its restarts."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("PACELINE_HOROVOD_STATE") or cache / "paceline")
    return folder / f"horovod-{os.geteuid()}" / f"commit-{_launch()}.pt"


def write(saved: dict[str, Any]) -> None:
    """Whole or not at all: a worker killed while writing leaves the commit before."""
    path = commit_file()
    buffer = io.BytesIO()
    torch.save({"launch": _launch(), "state": plain(saved)}, buffer)
    part = f"{path.stem}.{secrets.token_hex(8)}.part"
    _make(path.parent)
    with _folder(path.parent) as folder:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOT_FOLLOWED
        with open(os.open(part, flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(buffer.getbuffer())
        os.replace(part, path.name, src_dir_fd=folder, dst_dir_fd=folder)


def read() -> dict[str, Any] | None:
    """What this launch committed last; None before its first commit."""
    path = commit_file()
    try:
        with _folder(path.parent) as folder:
            # a pipe without a writer must not hold us up
            descriptor = _opened(path, os.O_RDONLY | os.O_NONBLOCK, folder)
            with open(descriptor, "rb") as file:
                _check(path, os.fstat(descriptor), of_type=stat.S_IFREG)
                held = _loaded(path, file)
    except FileNotFoundError:
        return None
    if not isinstance(held, dict) or held.get("launch") != _launch():
        raise CommitRefused(f"the commit {path} is of another launch: it is not restored; remove it")
    state: dict[str, Any] = as_it_was(held["state"])
    return state


def discard() -> None:
    """Remove what this launch committed, and its folder if nothing else lies there."""
    path = commit_file()
    with contextlib.suppress(FileNotFoundError), _folder(path.parent) as folder:
        for name in os.listdir(folder):
            if name.startswith(f"{path.stem}."):
                os.unlink(name, dir_fd=folder)
    with contextlib.suppress(OSError):
        path.parent.rmdir()


def _make(folder: Path) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
    except FileExistsError:
        pass  # whose it is, is looked at when it is opened
    except OSError as problem:
        raise CommitRefused(
            f"no commit can be written to {folder}: {problem.strerror}; set PACELINE_HOROVOD_STATE to a folder of "
            "your own"
        ) from None


def _loaded(path: Path, file: BinaryIO) -> Any:
    try:
        return torch.load(file, weights_only=True)
    except Exception as problem:  # pickle's own error has no public base
        raise CommitRefused(
            f"{path} is damaged, or holds more than tensors and plain values: it is not restored; remove it"
        ) from problem


@contextlib.contextmanager
def _folder(path: Path) -> Iterator[int]:
    """The folder, held open, so that what was checked is what is used."""
    descriptor = _opened(path, os.O_RDONLY)
    try:
        _check(path, os.fstat(descriptor), of_type=stat.S_IFDIR)
        yield descriptor
    finally:
        os.close(descriptor)


def _opened(path: Path, flags: int, folder: int | None = None) -> int:
    try:
        return os.open(path if folder is None else path.name, flags | _NOT_FOLLOWED, dir_fd=folder)
    except OSError as problem:
        if problem.errno == errno.ELOOP:
            raise CommitRefused(f"{path} is a symbolic link: it is not followed; remove it") from None
        raise


def _check(path: Path, found: os.stat_result, *, of_type: int) -> None:
    private = 0o700 if of_type == stat.S_IFDIR else 0o600
    if stat.S_IFMT(found.st_mode) != of_type:
        what = "no plain file" if of_type == stat.S_IFREG else "no folder"
        raise CommitRefused(f"{path} is {what}: it is not used; remove it")
    if found.st_uid != os.geteuid():
        raise CommitRefused(
            f"{path} belongs to user {found.st_uid}, not to {os.geteuid()}: it is not used; "
            "set PACELINE_HOROVOD_STATE to a folder of your own"
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise CommitRefused(
            f"{path} is open to other users (mode {stat.S_IMODE(found.st_mode):o}): it is not used; "
            f"if nobody else wrote there, chmod {private:o} {path}"
        )


def _launch() -> str:
    """Which launch this is. `paceline horovod run` says so; else it is the process that started the workers.

    With a folder of the user's choice, which several machines may share, the id given to torchrun counts instead."""
    told = os.environ.get("PACELINE_HOROVOD_LAUNCH")
    run = os.environ.get("TORCHELASTIC_RUN_ID", "")
    if not told and os.environ.get("PACELINE_HOROVOD_STATE") and run not in ("", "none"):
        told = f"run {run}"
    return hashlib.sha256((told or f"{run} {_parent()}").encode()).hexdigest()[:32]


def _parent() -> str:
    """The process that started this one; where the kernel tells, with its start, since numbers are used again."""
    number = os.getppid()
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        started = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[19]
        return f"{number} since {started} in {boot}"
    return str(number)
