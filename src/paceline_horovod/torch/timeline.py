"""HOROVOD_TIMELINE: every collective of rank 0 as a Chrome trace (chrome://tracing, Perfetto).

Times count from `start_time_since_epoch_in_micros`, given in the first event. One row per name:
NEGOTIATE_… from the request until all ranks were ready, then the collective itself.
"""

from __future__ import annotations

import json
import threading
from time import monotonic, time_ns
from typing import Any, TextIO

from paceline_horovod.common.request import Request

__all__ = ["Timeline"]


class Timeline:
    """The trace file, while one is open. Written event by event, so a killed training leaves a readable trace."""

    def __init__(self) -> None:
        self._file: TextIO | None = None
        self._mark_cycles = False
        self._rows: dict[str, int] = {}
        self._lock = threading.Lock()

    def open(self, path: str, *, mark_cycles: bool = False) -> None:
        self.close()
        with self._lock:
            self._rows = {}
            self._mark_cycles = mark_cycles
            self._file = open(path, "w", encoding="utf-8")  # noqa: SIM115 - open until close
            self._file.write("[\n")
            begun = {"start_time_since_epoch_in_micros": time_ns() // 1000 - int(monotonic() * 1e6)}
            self._write({"name": "clock", "ph": "M", "pid": 0, "args": begun})

    def add(self, request: Request, *, asked_s: float, begun_s: float, ended_s: float) -> None:
        """One collective: asked for, begun on all ranks, ended on this one."""
        with self._lock:
            if self._file is None:
                return
            row = self._rows.get(request.name)
            if row is None:
                row = self._rows[request.name] = len(self._rows) + 1
                self._write({"name": "process_name", "ph": "M", "pid": row, "args": {"name": request.name}})
            kind = request.kind.upper()
            arguments = {"dtype": list(request.dtypes), "shape": [list(shape) for shape in request.shapes]}
            if self._mark_cycles:
                mark = {"name": "CYCLE_START", "ph": "i", "s": "g", "pid": 0, "tid": 0}
                self._write({**mark, "ts": round(begun_s * 1e6, 1)})
            self._write(_span(f"NEGOTIATE_{kind}", row, asked_s, begun_s, {}))
            self._write(_span(kind, row, begun_s, ended_s, arguments))

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                self._file.write("{}]\n")
                self._file.close()
                self._file = None

    def _write(self, event: dict[str, Any]) -> None:
        assert self._file is not None
        self._file.write(json.dumps(event) + ",\n")
        self._file.flush()


def _span(name: str, row: int, begun_s: float, ended_s: float, arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "ph": "X",
        "pid": row,
        "tid": 0,
        "ts": round(begun_s * 1e6, 1),
        "dur": round((ended_s - begun_s) * 1e6, 1),
        "args": arguments,
    }
