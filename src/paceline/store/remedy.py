"""One thing to do when the system refuses to write: it depends on why."""

from __future__ import annotations

import errno

__all__ = ["remedy"]

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


def remedy(problem: OSError) -> str:
    """What a user can do about a file that could not be written."""
    if problem.errno in _FULL:
        return "free space on this disk, then the same command again goes on"
    if problem.errno in _FORBIDDEN:
        return "write to another folder, or to a copy of this one; paceline show only reads"
    return "check the disk and the folder"
