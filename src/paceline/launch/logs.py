"""What a trial prints, kept to its beginning and its end: a script that prints without measure must not fill the disk.

    thin       while the trial runs: the middle of a long log is given back to the disk as a hole. Its writers notice
               nothing: no pipe, no process between them and their file, and its length stays as it was
    shorten    when the trial has ended: the beginning, one line that says how much was left out, and the end

A file system that knows no holes (NFS before 4.2) keeps the whole log until the trial ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

__all__ = ["KEPT_BYTES", "shorten", "thin"]

_HEAD_BYTES = 1 << 20
_TAIL_BYTES = 1 << 22
KEPT_BYTES = _HEAD_BYTES + 2 * _TAIL_BYTES  # a log up to this stays whole; above it the middle goes
_KEEP_SIZE_PUNCH_HOLE = 0x01 | 0x02  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, linux/falloc.h


def thin(folder: Path) -> None:
    """Give the middle of every long log in a trial folder back to the disk."""
    for path in folder.glob("*.log"):
        with contextlib.suppress(OSError):
            seen = path.stat()
            if seen.st_size > KEPT_BYTES and seen.st_blocks * 512 > KEPT_BYTES:
                _punch(path, _HEAD_BYTES, seen.st_size - _TAIL_BYTES)


def shorten(folder: Path) -> None:
    """Rewrite every long log as its beginning and its end. Only when nobody writes any more."""
    for path in folder.glob("*.log"):
        with contextlib.suppress(OSError):  # a full disk: the log stays, with its hole
            if path.stat().st_size > KEPT_BYTES:
                _rewrite(path)


def _rewrite(path: Path) -> None:
    with open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
        size = file.seek(0, os.SEEK_END)
        file.seek(size - _TAIL_BYTES)
        tail = file.read()
    head = head[: head.rfind(b"\n") + 1] or head  # whole lines, where there are lines
    tail = tail[tail.find(b"\n") + 1 :] or tail
    left_out = size - len(head) - len(tail)
    note = f"[paceline: {left_out} bytes ({left_out / 1e6:.0f} MB) of this output were left out here]\n"
    beside = path.with_name(f".{path.name}.part")
    beside.write_bytes(head + (b"" if head.endswith(b"\n") else b"\n") + note.encode() + tail)
    os.replace(beside, path)


def _punch(path: Path, begin: int, end: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(path, os.O_WRONLY)
    try:
        size = ctypes.c_int64(end - begin)
        libc.fallocate(descriptor, _KEEP_SIZE_PUNCH_HOLE, ctypes.c_int64(begin), size)
    finally:
        os.close(descriptor)
