"""The checks of `paceline doctor`: what was looked at, what was seen, how bad it is, and the cure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from paceline.core.units import bytes_text, duration_text, percent_text
from paceline.doctor.machine import Machine

__all__ = ["Check", "State", "checkup", "quick_checkup"]

State = Literal["ok", "note", "doubt", "void", "unknown"]

LOAD_RATIO = 0.10
OPEN_FILES = 4096  # every data-loader worker of every training worker holds dozens
SHM_BYTES = 256 * 2**20  # a container's default is 64 MiB, which data-loader workers and NCCL outgrow
FREE_BYTES = 2**30
SYNC_S = 0.1
CLOCK_RATIO = 0.9
_OVER_NETWORK = (
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "lustre",
    "gpfs",
    "beegfs",
    "ceph",
    "fuse.sshfs",
    "fuse.bindfs",
)
_PATHS = {
    "NCCL_P2P_DISABLE": "between GPUs",
    "NCCL_SHM_DISABLE": "inside the node",
    "NCCL_IB_DISABLE": "between nodes",
}
_INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look gave. `said` is the evidence, also where all is well; `command` is a line to copy."""

    state: State
    said: str
    hint: str | None = None
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the doctor."""

    id: str
    title: str
    state: State
    said: str
    hint: str | None = None
    command: str | None = None


ok, unknown = partial(Seen, "ok"), partial(Seen, "unknown")
note, doubt, void = partial(Seen, "note"), partial(Seen, "doubt"), partial(Seen, "void")


def checkup(machine: Machine) -> tuple[Check, ...]:
    """Every check, in the order in which they are read."""
    return tuple(_check(name, machine) for name in CHECKS)


def quick_checkup(machine: Machine) -> tuple[Check, ...]:
    """What a study says of the machine before it spends minutes: only what is wrong."""
    found = [_check(name, machine) for name in _QUICK]
    return tuple(check for check in found if check.state in ("doubt", "void"))


def _check(name: str, machine: Machine) -> Check:
    title, look = CHECKS[name]
    seen = look(machine)
    return Check(name, title, seen.state, seen.said, seen.hint, seen.command)


def _torch(m: Machine) -> Seen:
    if m.problem is not None:
        return void(m.problem, "--python /path/to/env/bin/python, the one you train with")
    if m.torch is None:
        return void(f"{m.python} has no torch", "--python PATH, or pip install torch")
    return ok(f"torch {m.torch} in {m.python}")


def _gpus(m: Machine) -> Seen:
    if m.gpus is None or m.devices is None:
        return unknown("GPUs could not be counted on both sides")
    count, kinds = len(m.devices), sorted(set(m.devices))
    if m.gpus == count == 0:
        return ok("none here: workers train on CPU")
    if count == 0:
        cure = (
            "the driver must be as new as torch's CUDA asks for, and CUDA_VISIBLE_DEVICES must not hide them"
        )
        return void(f"the machine has {m.gpus} NVIDIA GPUs, torch {m.torch} sees none", cure, "nvidia-smi")
    if len(kinds) > 1:
        said = f"the GPUs differ ({', '.join(kinds)}): the slowest sets the pace"
        return doubt(said, "CUDA_VISIBLE_DEVICES with equal ones")
    said = f"torch sees {count} of {max(m.gpus, count)} NVIDIA GPUs ({kinds[0]})"
    hidden = m.environment.get("CUDA_VISIBLE_DEVICES")
    return ok(said) if hidden is None or count >= m.gpus else note(f"{said}: CUDA_VISIBLE_DEVICES={hidden}")


def _nccl(m: Machine) -> Seen:
    if not m.devices:
        return ok("not needed without GPUs")
    if m.nccl is None:
        return unknown("not looked at")
    without = "torch was built without NCCL: GPUs would communicate over gloo"
    return ok("torch has it") if m.nccl else doubt(without, "install a torch built for CUDA")


def _slow_path(m: Machine) -> Seen:
    off = [name for name in _PATHS if m.environment.get(name) not in (None, "", "0")]
    if not off:
        return ok("none is switched off")
    said = ", ".join(f"{name}={m.environment[name]}" for name in off)
    where = " and ".join(_PATHS[name] for name in off)
    cure = "find out why it was set"
    return doubt(f"{said}: communication {where} takes a slower way", cure, f"unset {' '.join(off)}")


def _cores(m: Machine) -> Seen:
    said = f"{m.cores} core{'' if m.cores == 1 else 's'} may be used"
    if m.machine_cores is None or m.machine_cores <= m.cores:
        return ok(said)
    limited = f"{said}, of {m.machine_cores} in the machine: an affinity or a container's limit"
    return note(limited, "on Slurm: --cpus-per-task, and srun needs it too")


def _threads(m: Machine) -> Seen:
    asked = m.environment.get("OMP_NUM_THREADS")
    if asked is None:
        return ok("OMP_NUM_THREADS is not set: a study sets it, the same at every count")
    if not asked.isdigit() or int(asked) < 1:
        return doubt(f"OMP_NUM_THREADS={asked} is no count", command="unset OMP_NUM_THREADS")
    said = f"OMP_NUM_THREADS={asked} on {m.cores} cores"
    if int(asked) > m.cores:
        return doubt(f"{said}: threads take turns", command=f"export OMP_NUM_THREADS={m.cores}")
    return ok(said)


def _busy(m: Machine) -> Seen:
    if m.busy_ratio is None:
        return unknown("not looked at")
    said = f"other processes use {percent_text(m.busy_ratio)} of the cores"
    if m.busy_ratio <= LOAD_RATIO:
        return ok(said)
    who = f" ({', '.join(m.busiest)})" if m.busiest else ""
    return doubt(f"{said}{who}: what is measured now is partly theirs", "stop them, or wait")


def _clocks(m: Machine) -> Seen:
    if m.clock_ratio is not None and m.clock_ratio < CLOCK_RATIO:
        said = f"capped at {percent_text(m.clock_ratio)} of what the CPU can do"
        return doubt(said, "cpupower frequency-set, or the firmware's power limit")
    if not m.governors:
        return unknown("this machine does not tell (a virtual machine, or a container)")
    return ok(f"governor {', '.join(m.governors)}, no cap")


def _open_files(m: Machine) -> Seen:
    if m.open_files is None:
        return ok("no limit")
    said = f"at most {m.open_files}"
    if m.open_files < OPEN_FILES:
        return doubt(f"{said}: data-loader workers of several workers need more", command="ulimit -n 65536")
    return ok(said)


def _locked(m: Machine) -> Seen:
    if not m.infiniband:
        return ok("not needed without InfiniBand")
    if m.locked_bytes is None:
        return ok(f"no limit, for {', '.join(m.infiniband)}")
    said = f"at most {bytes_text(m.locked_bytes)}, and {m.infiniband[0]} needs it without a limit"
    return doubt(f"{said}: NCCL falls back to sockets", command="ulimit -l unlimited")


def _shared_memory(m: Machine) -> Seen:
    if m.shm_free_bytes is None:
        return unknown("there is none to look at")
    said = f"{bytes_text(m.shm_free_bytes)} free"
    if m.shm_free_bytes >= SHM_BYTES:
        return ok(said)
    cure = "start the container with --shm-size 8g (or --ipc=host), or clear /dev/shm"
    return doubt(f"{said}: data-loader workers and NCCL fail when it is full", cure)


def _disk(m: Machine) -> Seen:
    if m.free_bytes is None:
        return unknown(f"{m.folder} could not be looked at")
    said = f"{m.folder}: {m.file_system or 'file system unknown'}, {bytes_text(m.free_bytes)} free"
    if m.free_bytes < FREE_BYTES:
        return doubt(f"{said}: a full disk ends a study", "--out on another disk")
    if m.sync_s is not None and m.sync_s > SYNC_S:
        slow = f"{said}, and {duration_text(m.sync_s)} to write a small file safely"
        return doubt(slow, "--out on a local disk; the data set too, if it lies here")
    if m.file_system in _OVER_NETWORK:
        return note(f"{said}: over the network, so reading data from here may set the pace")
    return ok(said)


def _named_interfaces(m: Machine) -> Seen:
    asked = {name: value for name in _INTERFACES if (value := m.environment.get(name))}
    known = ", ".join(m.interfaces)
    for name, value in asked.items():
        if not value.startswith("^") and not all(_is_there(w, name, m) for w in value.split(",")):
            said = f"{name}={value}, and this machine has only {known}: workers cannot meet"
            return void(said, command=f"unset {name}")
    return ok(", ".join(f"{n}={v}" for n, v in asked.items()) or f"not named; there are {known}")


def _is_there(wanted: str, name: str, m: Machine) -> bool:
    """NCCL takes the beginning of a name, and = before a whole one; the others take names."""
    if name.startswith("NCCL") and not wanted.startswith("="):
        return any(interface.startswith(wanted.split(":")[0]) for interface in m.interfaces)
    return wanted.lstrip("=").split(":")[0] in m.interfaces


def _host_name(m: Machine) -> Seen:
    if m.host_addresses is None:
        said = f"the name {m.host} is not found: gloo cannot choose an address"
        return doubt(said, f"a line for {m.host} in /etc/hosts")
    said = f"{m.host} is {', '.join(m.host_addresses)}"
    if all(address.startswith("127.") or address == "::1" for address in m.host_addresses):
        alone = f"{said}: enough for one node, other nodes cannot reach it"
        return note(alone, "for several nodes: its real address in /etc/hosts")
    return ok(said)


def _ports(m: Machine) -> Seen:
    if m.loopback_reached is None:
        return unknown("not looked at")
    if not m.loopback_reached:
        said = "a port opened on 127.0.0.1 cannot be reached: workers of one node cannot meet"
        return void(said, "allow the loopback interface in the firewall, and bring lo up")
    if m.port_holder is not None:
        port = m.environment.get("MASTER_PORT", "")
        said = f"MASTER_PORT={port} is held by {m.port_holder}: a script that uses it cannot start"
        return doubt(said, "end it, or choose another port", "unset MASTER_PORT")
    return ok("a port on 127.0.0.1 can be reached")


def _leftovers(m: Machine) -> Seen:
    if not m.leftovers:
        return ok("none runs")
    return doubt(f"still running: {', '.join(m.leftovers)}", "end them, if they are forgotten")


CHECKS: Mapping[str, tuple[str, Callable[[Machine], Seen]]] = {
    "torch": ("torch", _torch),
    "gpus": ("GPUs", _gpus),
    "nccl": ("NCCL", _nccl),
    "nccl-paths": ("NCCL's paths", _slow_path),
    "cores": ("cores", _cores),
    "threads": ("threads", _threads),
    "busy": ("other load", _busy),
    "clocks": ("CPU clocks", _clocks),
    "open-files": ("open files", _open_files),
    "locked-memory": ("locked memory", _locked),
    "shared-memory": ("/dev/shm", _shared_memory),
    "disk": ("study folder", _disk),
    "interface": ("network interface", _named_interfaces),
    "host-name": ("host name", _host_name),
    "ports": ("ports", _ports),
    "leftovers": ("earlier trainings", _leftovers),
}
_QUICK = ("busy", "open-files", "disk", "interface", "leftovers")
