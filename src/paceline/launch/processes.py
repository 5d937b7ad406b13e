"""The processes of a trial, found by the tag that each inherits, and their end.

torchrun gives every worker a session of its own: a process group does not reach them, the environment does.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import psutil

from paceline.launch.cgroup import quota_cores

__all__ = ["cores", "cores_of", "end_tagged", "kernel_oom_kills", "send", "tagged"]

_TAG = "PACELINE_TAG"
STACKS_SIGNAL = signal.SIGRTMIN + 7  # the agent answers it with the stacks of all threads


def tagged(tag: str) -> list[psutil.Process]:
    """Every live process whose environment carries this tag, or a tag that begins with it (`study:`)."""
    found, own = [], os.getpid()
    for process in psutil.process_iter():
        if process.pid == own:
            continue
        with contextlib.suppress(psutil.Error, OSError):
            value = process.environ().get(_TAG, "")
            begins = tag.endswith(":") and value.startswith(tag)
            if (value == tag or begins) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def end_tagged(tag: str, *, grace_s: float) -> int:
    """Terminate, wait up to `grace_s`, kill, until none is left. How many processes were found."""
    ended = 0
    processes = _with_descendants(tagged(tag))
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, alive = psutil.wait_procs(processes, timeout=grace_s if processes else 0)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()
    ended += len(processes)
    # one of them may have started another meanwhile: look again until the tag is gone
    for _ in range(10):
        alive = tagged(tag)
        if not alive:
            break
        for process in alive:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(alive, timeout=2.0)
        ended += len(alive)
    return ended


def _with_descendants(processes: list[psutil.Process]) -> list[psutil.Process]:
    """These and all that they have started: one that was given an environment of its own carries no tag."""
    found = {process.pid: process for process in processes}
    for process in processes:
        with contextlib.suppress(psutil.Error):
            for child in process.children(recursive=True):
                found.setdefault(child.pid, child)
    return list(found.values())


def send(pid: int, tag: str, number: int) -> bool:
    """Send a signal to a process, only while it is still a process of this trial (pids are used again)."""
    try:
        process = psutil.Process(pid)
        if process.environ().get(_TAG) != tag:
            return False
        process.send_signal(number)
    except (psutil.Error, OSError):
        return False
    return True


def kernel_oom_kills() -> int | None:
    """How many processes the kernel has killed for want of memory since it started."""
    try:
        with open("/proc/vmstat", encoding="ascii") as lines:
            return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)
    except OSError:
        return None


def cores() -> int:
    """Whole CPU cores that this process may use, at least one."""
    return max(1, int(cores_of(psutil.Process())))


def cores_of(process: psutil.Process) -> float:
    """CPU cores that a process may use: those it may run on, or as many as the quota of its container pays for."""
    usable = float(len(process.cpu_affinity() or [0]))
    quota = quota_cores(membership=Path(f"/proc/{process.pid}/cgroup"))
    return usable if quota is None else min(usable, quota)
