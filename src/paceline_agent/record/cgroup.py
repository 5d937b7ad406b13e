"""How many cores' time the kernel's groups leave to this process: a container's limit, which affinity does not show.

The desk has the same in launch/cgroup.py, and neither may import the other.
"""

from __future__ import annotations

import contextlib
import os
from typing import Optional, Tuple


def quota_cores(proc: str = "/proc/self") -> Optional[float]:
    """The least quota of this process's groups, version 1 or 2, in cores; None where none is set or known."""
    root = _root(os.path.join(proc, "mounts"))
    if root is None:
        return None
    mount, version = root
    group, found = _group(os.path.join(proc, "cgroup"), version).strip("/"), []
    while True:
        quota = _quota(os.path.join(mount, group), version)
        found += [] if quota is None else [quota]
        if not group:
            return min(found) if found else None
        group = os.path.dirname(group)


def _root(mounts: str) -> Optional[Tuple[str, int]]:
    """Where all groups with a quota lie, and the version: v1's cpu hierarchy, else v2 with cpu in it."""
    rows = [line.split() for line in _read(mounts).splitlines()]
    for row in rows:
        if len(row) > 3 and row[2] == "cgroup" and "cpu" in row[3].split(","):
            return row[1], 1
    for row in rows:
        if len(row) > 3 and row[2] == "cgroup2" and "cpu" in _read(f"{row[1]}/cgroup.controllers").split():
            return row[1], 2
    return None


def _group(membership: str, version: int) -> str:
    for line in _read(membership).splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" if version == 2 else "cpu" in controllers.split(","):
            return path
    return ""


def _quota(group: str, version: int) -> Optional[float]:
    names = ["cpu.max"] if version == 2 else ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
    with contextlib.suppress(ValueError):
        quota, period = " ".join(_read(os.path.join(group, name)) for name in names).split()
        if float(quota) > 0 and float(period) > 0:  # "max" and -1: none
            return float(quota) / float(period)
    return None


def _read(path: str) -> str:
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
    return ""
