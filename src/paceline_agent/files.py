"""The files of one worker in the trial folder. One writer per file; JSON is written beside and renamed."""

from __future__ import annotations

import json
import mmap
import os
import struct
from time import monotonic
from typing import Any

HEARTBEAT = struct.Struct("<QdQQ")  # steps done, monotonic seconds of the last step, pid, phase
_STEP = struct.Struct("<Qd")
STARTING, STEPPING, FINISHED, FAILED = 0, 1, 2, 3


class Heartbeat:
    """Thirty-two bytes that the desk can watch without asking: a memory map, so a beat costs no system call."""

    def __init__(self, folder: str, rank: int) -> None:
        path = os.path.join(folder, f"heartbeat-{rank}")
        with open(path, "wb+") as file:
            file.write(HEARTBEAT.pack(0, monotonic(), os.getpid(), STARTING))
            file.flush()
            self._map = mmap.mmap(file.fileno(), HEARTBEAT.size)

    def phase(self, steps: int, phase: int) -> None:
        HEARTBEAT.pack_into(self._map, 0, steps, monotonic(), os.getpid(), phase)

    def step(self, steps: int, now_s: float) -> None:
        """The hot path: sixteen bytes."""
        _STEP.pack_into(self._map, 0, steps, now_s)


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
