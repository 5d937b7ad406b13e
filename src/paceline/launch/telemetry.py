"""What workers use, sampled outside them: CPU seconds and memory from the kernel, devices from NVML.

A worker is known by the process id in its heartbeat, and is sampled only when that process carries the trial's tag and
this node's number: on another node the same process id is somebody else. One line per worker and moment goes to
telemetry-N.jsonl of the trial folder (docs/reference/files.md). A look costs the node about 0.5 ms of CPU per worker,
twice a second.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

import psutil

from paceline.launch.cgroup import limiting_group, periods
from paceline.launch.nvml import Devices, DeviceUse, devices
from paceline.launch.processes import cores_of

__all__ = ["NODE_VARIABLE", "Sampler"]

FORMAT = 1
NODE_VARIABLE = "PACELINE_NODE"
PERIOD_S = 0.45  # the watchdog looks twice a second
_CHILDREN_EVERY = 5  # data loaders start once per epoch; looking for them reads the whole process table


class Sampler:
    """Samples the workers of one trial on this node, until it is closed. No worker here: no file."""

    def __init__(self, folder: Path, *, tag: str, node: int) -> None:
        self._path = folder / f"telemetry-{node}.jsonl"
        self._tag = tag
        self._node = node
        self._file: TextIO | None = None
        self._devices: Devices | None = None
        self._known: dict[int, _Worker | None] = {}
        self._looked_s = time.monotonic() - PERIOD_S

    def look(self, workers: Iterable[tuple[int, int]]) -> None:
        """Sample these workers (rank, process id), if a period has passed since the last time."""
        if time.monotonic() - self._looked_s < PERIOD_S:
            return
        self._looked_s = time.monotonic()
        for rank, pid in workers:
            if pid not in self._known:
                self._known[pid] = _worker_of(pid, self._tag, self._node)
            worker = self._known[pid]
            if worker is not None:
                with contextlib.suppress(psutil.Error, OSError):
                    self._write(rank, worker, self._file or self._opened(worker))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._devices is not None:
            self._devices.close()
            self._devices = None

    def _opened(self, worker: _Worker) -> TextIO:
        self._devices = devices()
        self._file = self._path.open("a", encoding="utf-8")
        header = {
            "record": "header",
            "format": FORMAT,
            "node": self._node,
            "host": socket.gethostname(),
            "cores": cores_of(worker.process),
            "nvml": self._devices.driver if self._devices else None,
        }
        self._file.write(json.dumps(header) + "\n")
        return self._file

    def _write(self, rank: int, worker: _Worker, file: TextIO) -> None:
        cpu_s, rss_bytes = worker.use()
        device = self._devices.use(worker.process.pid, worker.environment) if self._devices else None
        line = {
            "record": "worker",
            "rank": rank,
            "t_s": round(time.monotonic(), 4),
            "cpu_s": round(cpu_s, 3),
            "rss_bytes": rss_bytes,
            **worker.limited(),
            **asdict(device or DeviceUse()),
        }
        file.write(json.dumps(line) + "\n")
        file.flush()


class _Worker:
    """A worker's process and its children (data loaders)."""

    def __init__(self, process: psutil.Process, environment: Mapping[str, str]) -> None:
        self.process = process
        self.environment = environment
        self._children: list[psutil.Process] = []
        self._looks = 0
        self._limit = limiting_group(membership=Path(f"/proc/{process.pid}/cgroup"))

    def use(self) -> tuple[float, int]:
        """CPU seconds so far and resident bytes now, of all of them."""
        if self._looks % _CHILDREN_EVERY == 0:
            self._children = self.process.children(recursive=True)
        self._looks += 1
        with self.process.oneshot():
            times = self.process.cpu_times()
            rss_bytes = self.process.memory_info().rss
        if not rss_bytes:  # it has ended, and its parent has not yet looked
            raise psutil.NoSuchProcess(self.process.pid)
        cpu_s = times.user + times.system + times.children_user + times.children_system
        for child in self._children:
            with contextlib.suppress(psutil.Error):
                own = child.cpu_times()
                cpu_s += own.user + own.system
                rss_bytes += child.memory_info().rss
        return cpu_s, rss_bytes

    def limited(self) -> dict[str, int]:
        """The periods of its CPU limit so far, and those in which that stopped it; nothing where it has no limit."""
        counted = None if self._limit is None else periods(self._limit)
        return {} if counted is None else {"periods": counted[0], "stopped_periods": counted[1]}


def _worker_of(pid: int, tag: str, node: int) -> _Worker | None:
    """The worker with this process id, if it is one of this trial on this node (a machine may be two nodes)."""
    with contextlib.suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        environment = process.environ()
        if environment.get("PACELINE_TAG") == tag and environment.get(NODE_VARIABLE, "0") == str(node):
            return _Worker(process, environment)
    return None
