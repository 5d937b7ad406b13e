"""One desk per study, or several that share it by claims. The kernel frees a lock when its desk dies, however."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from paceline.core.errors import StudyError, StudyInUse
from paceline.core.json_text import json_of
from paceline.store.atomic import remedy
from paceline.store.paths import StudyFolder

__all__ = ["locked", "shared"]

_NO_LOCKS = (
    errno.ENOSYS,
    errno.ENOTSUP,
    errno.ENOLCK,
)  # a file system that has none: Lustre mounted without flock


def locked(folder: StudyFolder) -> AbstractContextManager[None]:
    """Hold the study; StudyInUse, naming the holder, when another desk does. The file itself stays."""
    return _held(folder, fcntl.LOCK_EX)


def shared(folder: StudyFolder) -> AbstractContextManager[None]:
    """Hold the study together with others who share it; StudyInUse when a desk holds it alone."""
    return _held(folder, fcntl.LOCK_SH)


@contextmanager
def _held(folder: StudyFolder, kind: int) -> Iterator[None]:
    try:
        descriptor = os.open(folder.lock, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as problem:
        raise StudyError(f"cannot lock {folder.lock}: {problem.strerror}", hint=remedy(problem)) from problem
    try:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StudyInUse(
                f"another desk ({_holder(descriptor)}) is working on {folder.root}",
                hint="wait for it, or give this study its own folder with --out",
            ) from None
        except OSError as problem:
            if problem.errno not in _NO_LOCKS:
                raise
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    try:
        held = json_of(os.pread(descriptor, 1000, 0))
        return f"process {held['pid']} on {held['host']}"
    except (ValueError, KeyError, TypeError):
        return "unknown process"
