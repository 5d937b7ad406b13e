"""The kernel's groups: where they are mounted, and how many cores' time they leave to a process (version 1 or 2).

A container that is given two of 64 cores sees all 64: its limit is a quota of time, which affinity does not show.
Groups lie in one another, and the least of their quotas counts.
"""

from __future__ import annotations

import contextlib
from pathlib import Path, PurePosixPath

__all__ = ["limiting_group", "periods", "quota_cores", "root_group"]

_MOUNTS, _OWN = Path("/proc/self/mounts"), Path("/proc/self/cgroup")


def root_group(mounts: Path = _MOUNTS) -> tuple[Path, int] | None:
    """The folder of all groups with a quota, and the version: v1's cpu hierarchy, else v2 with cpu in it."""
    try:
        rows = [line.split() for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        return None
    for row in rows:
        if len(row) > 3 and row[2] == "cgroup" and "cpu" in row[3].split(","):
            return Path(row[1]), 1
    for row in rows:
        if len(row) > 3 and row[2] == "cgroup2":
            with contextlib.suppress(OSError):
                if "cpu" in (Path(row[1]) / "cgroup.controllers").read_text().split():
                    return Path(row[1]), 2
    return None


def quota_cores(mounts: Path = _MOUNTS, membership: Path = _OWN) -> float | None:
    """How many cores' time a process may use by the quotas of its groups; None where none is set or known."""
    return min((quota for quota, _ in _quotas(mounts, membership)), default=None)


def limiting_group(mounts: Path = _MOUNTS, membership: Path = _OWN) -> Path | None:
    """Of a process's groups the one whose quota is the least; None where none is set or known."""
    return min(_quotas(mounts, membership), default=(0.0, None))[1]


def periods(group: Path) -> tuple[int, int] | None:
    """So far, the periods in which the group wanted to run, and those in which its quota was used up before the end."""
    try:
        told = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
        return int(told["nr_periods"]), int(told["nr_throttled"])
    except (OSError, ValueError, KeyError):
        return None


def _quotas(mounts: Path, membership: Path) -> list[tuple[float, Path]]:
    """Every quota that holds a process, and its group."""
    root = root_group(mounts)
    if root is None:
        return []
    mount, version = root
    own = PurePosixPath(_path_of(membership, version).lstrip("/"))
    found = [(_quota(mount / group, version), mount / group) for group in (own, *own.parents)]
    return [(quota, group) for quota, group in found if quota is not None]


def _path_of(membership: Path, version: int) -> str:
    """The group of a process; that of all where it is not told, or told as another namespace names it."""
    with contextlib.suppress(OSError):
        for line in membership.read_text(encoding="utf-8", errors="replace").splitlines():
            number, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            if number == "0" if version == 2 else "cpu" in controllers.split(","):
                return path
    return "/"


def _quota(group: Path, version: int) -> float | None:
    with contextlib.suppress(OSError, ValueError):
        if version == 2:
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        if float(quota) > 0 and float(period) > 0:  # "max" and -1: none
            return float(quota) / float(period)
    return None
