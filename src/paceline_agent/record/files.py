"""The files of one worker in the trial folder. One writer per file; JSON is written beside and renamed."""

from __future__ import annotations

import json
import mmap
import os
import struct
import threading
from time import monotonic
from typing import Any

HEARTBEAT = struct.Struct("<QdQQ")  # steps done, monotonic seconds of the last step, pid, phase
_STEP = struct.Struct("<Qd")
STARTING, STEPPING, FINISHED, FAILED = 0, 1, 2, 3
FLUSH_S = 5.0
_NETWORK = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "fuse")


class Heartbeat:
    """Thirty-two bytes that the desk can watch without asking: a memory map, so a beat costs no system call.

    A client of NFS keeps what is written to a map to itself for half a minute. There, and only there, a thread sends it
    on every few seconds: the kernel does it while training goes on. Where a file cannot be mapped it is written."""

    def __init__(self, folder: str, rank: int) -> None:
        path = os.path.join(folder, f"heartbeat-{rank}")
        with open(path, "wb+") as file:
            file.write(HEARTBEAT.pack(0, monotonic(), os.getpid(), STARTING))
            file.flush()
            try:
                self._map: Any = mmap.mmap(file.fileno(), HEARTBEAT.size)
            except (OSError, ValueError):
                self._map = _Written(os.dup(file.fileno()))
        if on_network(folder):
            threading.Thread(target=_flush, args=(path,), name="paceline-heartbeat", daemon=True).start()

    def phase(self, steps: int, phase: int) -> None:
        self._map[:] = HEARTBEAT.pack(steps, monotonic(), os.getpid(), phase)

    def step(self, steps: int, now_s: float) -> None:
        """The hot path: sixteen bytes."""
        self._map[: _STEP.size] = _STEP.pack(steps, now_s)


def own_number(folder: str, rank: int, world: int) -> int:
    """This worker's number, or one beyond all where another living process says that it has the same.

    A script that starts torchrun by itself under torchrun has each number several times. Without this they would
    write one file, and the trial would pass for one of fewer workers; so the desk sees one too many."""
    while True:
        path = os.path.join(folder, f"heartbeat-{rank}")
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
            return rank
        except FileExistsError:
            if not _is_held(path):
                return rank
        rank += max(1, world)


def _is_held(path: str) -> bool:
    """Whether a living process other than this one beats here, or is about to."""
    with open(path, "rb") as file:
        data = file.read()
    if len(data) < HEARTBEAT.size:
        return True
    _, _, pid, phase = HEARTBEAT.unpack_from(data)
    if pid == os.getpid() or phase == FINISHED:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class _Written:
    """A file that takes the beginning of its content by a system call, for file systems that map no files."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __setitem__(self, place: slice, content: bytes) -> None:
        os.pwrite(self._descriptor, content, 0)


def on_network(folder: str, mounts: str = "/proc/self/mountinfo") -> bool:
    """Whether this folder lies on a file system that other machines share, as the kernel's table of mounts has it."""
    try:
        with open(mounts, encoding="utf-8", errors="replace") as lines:
            table = [line.split(" - ", 1) for line in lines if " - " in line]
    except OSError:
        return False
    here, found, kind = os.path.realpath(folder), "", ""
    for left, right in table:
        point = left.split()[4].replace("\\040", " ")
        inside = here == point or here.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(found):  # of two mounts at one point the later one is seen
            found, kind = point, right.split()[0]
    return kind.startswith(_NETWORK)


def _flush(path: str) -> None:
    """Send the map's page on, for as long as the process lives and the file takes it."""
    never = threading.Event()
    try:
        with open(path, "rb+", buffering=0) as file:
            while not never.wait(FLUSH_S):
                os.fsync(file.fileno())
    except OSError:
        return


def write_json(folder: str, name: str, data: Any) -> None:
    """Write a whole JSON file, or none of it."""
    write_text(folder, name, json.dumps(data, allow_nan=False, default=str))


def write_lines(folder: str, name: str, records: list[dict[str, Any]]) -> None:
    """Write a whole JSON-lines file, or none of it. A loss that is not finite is written as text."""
    write_text(folder, name, "".join(json.dumps(_plain(record)) + "\n" for record in records))


def write_text(folder: str, name: str, text: str) -> None:
    beside = os.path.join(folder, f".{name}.{os.getpid()}")
    try:
        with open(beside, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, os.path.join(folder, name))
    except BaseException:
        if os.path.exists(beside):
            os.unlink(beside)
        raise


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    loss = record.get("loss")
    if isinstance(loss, float) and not (abs(loss) < float("inf")):
        return {**record, "loss": str(loss)}  # "nan", "inf", "-inf"
    return record
