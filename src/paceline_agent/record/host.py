"""This host and this process as the operating system sees them. Linux's /proc where it exists; None elsewhere."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import signal
import socket
import sys
import time
from typing import Any, Optional

from paceline_agent.record.cgroup import quota_cores

_PR_SET_PDEATHSIG = 1
_ALLOWED = (
    "OMP_",
    "MKL_",
    "KMP_",
    "NCCL_",
    "GLOO_",
    "TORCH_",
    "CUDA_",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_",
    "MASTER_",
    "SLURM_",
)
_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")


def die_with_parent(*, torchrun: bool = False) -> None:
    """Ask the kernel to kill this process when its parent dies, so that a killed desk leaves no orphan behind.

    `torchrun`: whether the parent is to be torchrun. It may be gone by now, and another process be the parent."""
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent or (torchrun and _has_lost_torchrun(parent)):  # it died in between, or before
        os.kill(os.getpid(), signal.SIGKILL)


def _has_lost_torchrun(parent: int) -> bool:
    """Whether this worker of a trial was started by a torchrun that is gone: its parent is then one that is neither of
    the trial nor a torchrun. Python takes a tenth of a second to come here, in which torchrun may be killed."""
    tag = os.environ.get("PACELINE_TAG")
    if not tag or "TORCHELASTIC_RUN_ID" not in os.environ:
        return False
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return False  # a container that numbers processes otherwise than its /proc
        with open(f"/proc/{parent}/environ", "rb") as file:
            ours = f"PACELINE_TAG={tag}".encode() in file.read()
        with open(f"/proc/{parent}/cmdline", "rb") as file:
            return not ours and b"torch" not in file.read()
    except OSError:
        return parent == 1


def private_bytes() -> Optional[int]:
    """Memory of this process's own: heap and anonymous maps, as a limit counts it. None: it is not told."""
    return _status_bytes().get("VmData")


def private_peak_bytes() -> Optional[int]:
    """The most of it so far. The kernel keeps the peak of all maps alone: by as much as they were more than now."""
    sizes = _status_bytes()
    if not {"VmData", "VmPeak", "VmSize"} <= set(sizes):
        return None
    return sizes["VmData"] + sizes["VmPeak"] - sizes["VmSize"]


def _status_bytes() -> dict[str, int]:
    """The sizes that the kernel tells of this process."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError, ValueError), open("/proc/self/status", encoding="utf-8") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name.startswith("Vm"):
                found[name] = int(value.split()[0]) * 1024
    return found


def limit_memory(most_bytes: Optional[int]) -> None:
    """Let this process take so much more memory of its own (heap and anonymous maps) than it has now, torch imported.

    What is limited is then data, weights, gradients and activations, as on a device of that size."""
    held = private_bytes()
    if most_bytes is None or held is None:
        return
    resource.setrlimit(resource.RLIMIT_DATA, (held + most_bytes, held + most_bytes))


def free_memory_bytes() -> Optional[int]:
    """Memory that processes here can still take: what the kernel has, or less where a control group limits it."""
    free: list[int] = []
    with (
        contextlib.suppress(OSError, ValueError, StopIteration),
        open("/proc/meminfo", encoding="ascii") as file,
    ):
        free.append(next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:")))
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):
            free.append(max(0, _number_in(limit) - _number_in(used)))
    return min(free, default=None)


def _number_in(path: str) -> int:
    with open(path, encoding="ascii") as file:
        return int(file.read())


def cpu_seconds() -> dict[str, Optional[float]]:
    """CPU seconds so far: of this process and its children, busy and stolen on the whole host."""
    times = os.times()
    own = times.user + times.system + times.children_user + times.children_system
    busy: Optional[float] = None
    steal: Optional[float] = None
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open("/proc/stat", encoding="ascii") as file:
            total, *others = [line.split() for line in file]
        idle, iowait, stolen = (float(total[i]) / os.sysconf("SC_CLK_TCK") for i in (4, 5, 8))
        cpus = sum(row[0].startswith("cpu") for row in others if row)
        # idle time is exact; what ran is counted by ticks, which meet those that a quota wakes and stops more often
        busy, steal = time.monotonic() * cpus - idle - iowait - stolen, stolen
    living = sum(_process_cpu(child) for child in children())
    return {"own": own + living, "busy": busy, "steal": steal}


def children() -> list[int]:
    """The pids of all living descendants (data-loader workers and theirs)."""
    found: list[int] = []
    queue = [os.getpid()]
    while queue:
        pid = queue.pop()
        for child in _children_of(pid):
            found.append(child)
            queue.append(child)
    return found


def _children_of(pid: int) -> list[int]:
    result: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with (
                contextlib.suppress(OSError),
                open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file,
            ):
                result.extend(int(x) for x in file.read().split())
    return result


def _process_cpu(pid: int) -> float:
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return (float(fields[11]) + float(fields[12])) / float(os.sysconf("SC_CLK_TCK"))
    return 0.0


def peak_memory_bytes() -> int:
    """The largest resident set of this process so far. getrusage would count the process that started it too: on
    Linux its figure is inherited across exec."""
    with contextlib.suppress(OSError, ValueError), open("/proc/self/status", encoding="utf-8") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak) if sys.platform == "darwin" else int(peak) * 1024


def usable_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def identity() -> dict[str, Any]:
    """Host, interpreter and the part of the environment that changes how training runs, without secrets."""
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": usable_cpus(),
        "cpu_quota": quota_cores(),
        "argv": list(sys.argv),
        "environment": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(_ALLOWED) and not any(word in name.upper() for word in _SECRET)
        },
    }
