"""A look at this machine for the doctor, in about a second and without starting a training."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import psutil

from paceline.doctor.machine import Machine
from paceline.launch.facts import Subject, facts_of_this_node
from paceline.launch.processes import cores

__all__ = ["looked_at", "quick_look"]

_SAMPLE_S = 0.5
_QUICK_SAMPLE_S = 0.2
_NVIDIA, _DISPLAY = "0x10de", "0x03"  # vendor and class of a GPU on the PCI bus
_REACH_S = 2.0
_BUSY_SHARE = 0.1
_MOST = 3
_T = TypeVar("_T")


def looked_at(python: str, folder: Path) -> Machine:
    """Everything that can be seen. `python` is asked for torch and its devices."""
    seen = facts_of_this_node(Subject(python, None, devices=True), node=0, way=None)
    return _with_quick(
        folder,
        sample_s=_SAMPLE_S,
        python=python,
        torch=seen.torch,
        problem=seen.problem,
        nccl=seen.nccl,
        devices=seen.devices,
        gpus=_known(_gpus_on_bus),
        infiniband=tuple(sorted(p.name for p in _entries("/sys/class/infiniband"))),
        locked_bytes=_limit(resource.RLIMIT_MEMLOCK),
        shm_free_bytes=seen.shm_free_bytes,
        governors=tuple(sorted({text for p in _policies() if (text := _text(p / "scaling_governor"))})),
        clock_ratio=_clock_ratio(),
        sync_s=_known(lambda: _sync_s(folder)),
        host_addresses=_addresses(socket.gethostname()),
        loopback_reached=_loopback_reached(),
        port_holder=_holder(os.environ.get("MASTER_PORT", "")),
    )


def quick_look(folder: Path) -> Machine:
    """What a study looks at before it starts, in a quarter of a second."""
    return _with_quick(folder, sample_s=_QUICK_SAMPLE_S, python="")


def _with_quick(folder: Path, *, sample_s: float, **more: object) -> Machine:
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.is_dir())
    busy, busiest = _busy(sample_s)
    return Machine(
        cores=cores(),
        machine_cores=os.cpu_count(),
        busy_ratio=busy,
        busiest=busiest,
        open_files=_limit(resource.RLIMIT_NOFILE),
        folder=str(folder),
        file_system=_known(lambda: _file_system(there)),
        free_bytes=_known(lambda: shutil.disk_usage(there).free),
        host=socket.gethostname(),
        interfaces=tuple(name for _, name in socket.if_nameindex()),
        leftovers=_leftovers(),
        environment=dict(os.environ),
        **more,  # type: ignore[arg-type]  # fields of Machine, by name
    )


def _known(look: Callable[[], _T]) -> _T | None:
    try:
        return look()
    except OSError:
        return None


def _limit(which: int) -> int | None:
    soft, _ = resource.getrlimit(which)
    return None if soft == resource.RLIM_INFINITY else soft


def _busy(sample_s: float) -> tuple[float | None, tuple[str, ...]]:
    """What processes other than this one and its parents took of all cores just now, and those that took most."""
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    before = {
        p.pid: (p, taken)
        for p in psutil.process_iter()
        if p.pid not in own and (taken := _cpu_s(p)) is not None
    }
    began = time.monotonic()
    time.sleep(sample_s)
    took = [(now - then, p) for p, then in before.values() if (now := _cpu_s(p)) is not None]
    whole = (time.monotonic() - began) * (os.cpu_count() or 1)
    most = sorted(((s, p) for s, p in took if s > _BUSY_SHARE * sample_s), key=lambda one: -one[0])
    return sum(s for s, _ in took) / whole, tuple(f"{_name(p)} {p.pid}" for _, p in most[:_MOST])


def _cpu_s(process: psutil.Process) -> float | None:
    with suppress(psutil.Error):
        times = process.cpu_times()
        return float(times.user + times.system)
    return None


def _name(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return str(process.name())
    return "process"


def _leftovers() -> tuple[str, ...]:
    """Workers that torchrun started and that outlived it: their parent is the machine's first process."""
    found = []
    for process in psutil.process_iter(["pid", "ppid", "cmdline"]):
        words = process.info["cmdline"] or []
        if process.info["ppid"] == 1 and any(
            "torch.distributed" in w or "paceline_agent" in w for w in words
        ):
            found.append(f"{_name(process)} {process.info['pid']}")
    return tuple(found)


def _gpus_on_bus() -> int | None:
    devices = _entries("/sys/bus/pci/devices")
    if not devices:
        return None
    return sum(
        _text(path / "vendor") == _NVIDIA and (_text(path / "class") or "").startswith(_DISPLAY)
        for path in devices
    )


def _policies() -> list[Path]:
    return [path for path in _entries("/sys/devices/system/cpu/cpufreq") if path.name.startswith("policy")]


def _clock_ratio() -> float | None:
    ratios = []
    for path in _policies():
        allowed, highest = _text(path / "scaling_max_freq"), _text(path / "cpuinfo_max_freq")
        if allowed and highest and int(highest):
            ratios.append(int(allowed) / int(highest))
    return min(ratios, default=None)


def _entries(folder: str) -> list[Path]:
    with suppress(OSError):
        return list(Path(folder).iterdir())
    return []


def _text(path: Path) -> str | None:
    with suppress(OSError, UnicodeDecodeError):
        return path.read_text().strip()
    return None


def _file_system(path: Path) -> str | None:
    """The type of the mount that this path lies on."""
    mounts = [part for part in psutil.disk_partitions(all=True) if path.is_relative_to(part.mountpoint)]
    return max(mounts, key=lambda part: len(part.mountpoint)).fstype if mounts else None


def _sync_s(folder: Path) -> float:
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.is_dir())
    name = there / f".paceline-{os.getpid()}"
    began = time.monotonic()
    try:
        with name.open("wb") as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
    finally:
        name.unlink(missing_ok=True)
    return time.monotonic() - began


def _addresses(host: str) -> tuple[str, ...] | None:
    try:
        return tuple(sorted({str(found[4][0]) for found in socket.getaddrinfo(host, None)}))
    except OSError:
        return None


def _loopback_reached() -> bool:
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as own,
            socket.create_connection(own.getsockname(), timeout=_REACH_S),
        ):
            return True
    except OSError:
        return False


def _holder(port: str) -> str | None:
    """Who listens on this port; None where nobody does, or it is no port."""
    if not port.isdigit():
        return None
    with suppress(psutil.Error):
        for link in psutil.net_connections("tcp"):
            if link.status == psutil.CONN_LISTEN and link.laddr and link.laddr.port == int(port):
                return f"{_name(psutil.Process(link.pid))} {link.pid}" if link.pid else "another process"
    return None
