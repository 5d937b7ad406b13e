"""How much of a core a host's processes may use together: a cgroup with a quota, version 1 or 2.

v1   CPU_MOUNT/NAME/cpu.cfs_quota_us of cpu.cfs_period_us
v2   MOUNT/NAME/cpu.max "QUOTA PERIOD", with the cpu controller handed down by the root group

A quota stands for a slower core, which it resembles the better the shorter its period is. Whoever waits now and then
(for an exchange) spends on waiting what is left of a period in which its quota is used up: of 0.4 s of computing at a
quarter of a core it saves 5.5% with 20 ms, 2.9% with 10 ms, 1.1% with 4 ms (evidence of the laboratory). So the
period is short, and longer only where the least quota that the kernel takes, 1 ms, is too much of it. It is not
a tick of the scheduler either: with its 4 ms one group of 36 got a sixth less than its quota.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from paceline.core.errors import PacelineError
from paceline.launch.cgroup import root_group
from paceline.testbed.blueprint import Host

__all__ = ["groups_like", "join_file", "limit", "remove_group"]

_PERIOD_US = 5_300
_LEAST_US = 1_000  # the kernel takes no smaller quota
_LONGEST_US = 1_000_000  # nor a longer period


def limit(host: Host) -> None:
    """Make the host's group and set its quota; nothing where it has none."""
    if host.cores is None:
        return
    root = root_group()
    if root is None:
        raise PacelineError(
            "this machine has no cgroup with a CPU quota (neither v1 cpu nor v2 with the cpu controller)",
            hint="leave out --cpu and --slow-host",
        )
    mount, version = root
    group = mount / host.namespace
    period = min(_LONGEST_US, max(_PERIOD_US, round(_LEAST_US / host.cores)))
    quota = max(_LEAST_US, round(host.cores * period))
    try:
        handed_down = mount / "cgroup.subtree_control"
        # in a container that has processes in its own root group, asking again is refused
        if version == 2 and "cpu" not in handed_down.read_text().split():
            handed_down.write_text("+cpu")
        group.mkdir()
        if version == 2:
            (group / "cpu.max").write_text(f"{quota} {period}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(period))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
    except OSError as problem:
        raise PacelineError(
            f"the CPU quota of host {host.number} cannot be set: {problem.filename}: {problem.strerror}",
            hint="leave out --cpu and --slow-host, or mount cgroups writable",
        ) from None


def join_file(host: Host) -> Path | None:
    """Where a process writes its number to live under the host's quota; None where the host has none."""
    root = root_group()
    if host.cores is None or root is None:
        return None
    return root[0] / host.namespace / "cgroup.procs"


def groups_like(prefix: str) -> list[Path]:
    """The groups whose name begins so."""
    root = root_group()
    return [] if root is None else sorted(p for p in root[0].iterdir() if p.name.startswith(prefix))


def remove_group(group: Path) -> None:
    """Remove a group whose processes have ended."""
    with contextlib.suppress(OSError):
        group.rmdir()
