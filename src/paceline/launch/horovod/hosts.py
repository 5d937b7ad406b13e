"""Workers on several hosts: one torchrun per host, started over ssh, by srun, or here.

    desk ──ssh host sh──▶  unpack paceline_horovod from stdin, torchrun --node-rank i … , end with stdin
         ──srun … sh────▶  the same inside a Slurm allocation
         ──sh───────────▶  the same on this machine

What travels is paceline_horovod and the environment; the script, its data and the Python must be found on every
host under the same path, as horovodrun asks too. Ranks count through the hosts in the order given.
"""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from paceline.core.errors import UsageError
from paceline.launch.nodes.route import own_addresses

__all__ = [
    "Host",
    "Meeting",
    "Way",
    "command_on",
    "hosts_in",
    "hosts_of",
    "is_here",
    "script_on",
    "shared_out",
]
__all__ += ["slurm_hosts"]

Way = Literal["ssh", "srun", "here"]

_HERE = {"localhost", "127.0.0.1", "::1"}
_TRAVELS = re.compile(
    r"(HOROVOD|NCCL|GLOO|TORCH|KERAS|OMP|MKL|PACELINE|PYTHON)_?\w*|PATH|LD_LIBRARY_PATH|VIRTUAL_ENV"
)
_TASKS = re.compile(r"(\d+)(?:\(x(\d+)\))?")

_SCRIPT = """\
D=$(mktemp -d) || exit 71
head -c {size} | tar -xf - -C "$D" || exit 71
cd {folder} || exit 72
exec 3<&0
env PACELINE_HOROVOD_STATE="$D" {variables} PYTHONPATH="$D"{searched} {command} 3<&- </dev/null &
P=$!
(cat <&3 >/dev/null; kill $P 2>/dev/null) &
W=$!
wait $P
C=$?
kill $W 2>/dev/null
rm -rf "$D"
exit $C
"""


@dataclass(frozen=True, slots=True)
class Host:
    """A machine and how many workers it takes."""

    name: str
    slots: int


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where all workers meet: an address of the first host."""

    address: str
    port: int


def hosts_of(text: str) -> tuple[Host, ...]:
    """`host:slots,host:slots`."""
    hosts = []
    for part in text.split(","):
        name, _, count = part.strip().rpartition(":")
        if not name or not count.isdigit() or int(count) < 1:
            raise UsageError(f"-H {part!r} is not host:slots", hint="-H localhost:4")
        hosts.append(Host(name, int(count)))
    return tuple(hosts)


def hosts_in(text: str, *, name: str) -> tuple[Host, ...]:
    """A hostfile: one `host slots=N` or `host:N` per line, a host alone has one slot, # begins a comment."""
    parts = []
    for line in text.splitlines():
        first, *words = line.partition("#")[0].split() or [""]
        slots = [word.removeprefix("slots=") for word in words if word.startswith("slots=")]
        if first:
            parts.append(first if ":" in first else f"{first}:{slots[0] if slots else 1}")
    if not parts:
        raise UsageError(f"the hostfile {name} names no host", hint="one line per host: node1 slots=4")
    return hosts_of(",".join(parts))


def slurm_hosts(names: Sequence[str], *, workers: int | None, tasks_per_node: str) -> tuple[Host, ...]:
    """The nodes of an allocation with the tasks Slurm planned on each, or equal shares where more are asked for."""
    planned = [int(n) for n, times in _TASKS.findall(tasks_per_node) for _ in range(int(times or 1))]
    planned = planned if len(planned) == len(names) else [1] * len(names)
    even = -(-workers // len(names)) if workers and workers > sum(planned) else 0
    return tuple(Host(name, max(count, even)) for name, count in zip(names, planned, strict=True))


def shared_out(hosts: Sequence[Host], workers: int | None) -> tuple[Host, ...]:
    """As many workers as asked for, the first hosts filled first; without a number, every slot."""
    slots = sum(host.slots for host in hosts)
    left = slots if workers is None else workers
    if left > slots:
        raise UsageError(
            f"-np {left} asks for more workers than the {slots} slots of -H", hint=f"-np {slots}"
        )
    used = []
    for host in hosts:
        if left > 0:
            used.append(Host(host.name, min(host.slots, left)))
        left -= host.slots
    return tuple(used)


def is_here(host: Host) -> bool:
    return host.name in _HERE | {socket.gethostname(), socket.getfqdn(), *own_addresses()}


def command_on(
    host: Host, script: str, way: Way, *, ssh_port: int | None = None, identity: str | None = None
) -> list[str]:
    """The command that runs a shell script on a host."""
    if way == "here":
        return ["sh", "-c", script]
    if way == "srun":
        one = ["--nodes=1", "--ntasks=1", f"--nodelist={host.name}"]
        return ["srun", "--overlap", "--quiet", "--kill-on-bad-exit=1", *one, "sh", "-c", script]
    port = ["-p", str(ssh_port)] if ssh_port is not None else []
    key = ["-i", identity] if identity is not None else []
    # whatever shell the user logs in with, the script is for sh
    return ["ssh", "-o", "BatchMode=yes", "-T", *port, *key, host.name, f"exec sh -c {shlex.quote(script)}"]


def script_on(
    hosts: Sequence[Host],
    number: int,
    command: Sequence[str],
    *,
    python: str,
    meeting: Meeting,
    restarts: int,
    folder: str,
    environment: Mapping[str, str],
    archive_bytes: int,
) -> str:
    """The shell script of one host: unpack, start its workers, end them when the desk is gone."""
    count = ["--nnodes", str(len(hosts)), "--nproc-per-node", str(hosts[number].slots)]
    where = f"{meeting.address}:{meeting.port}"
    first = ["--rdzv-conf", f"is_host={int(number == 0)}"]
    meet = ["--node-rank", str(number), "--master-addr", meeting.address, "--master-port", str(meeting.port)]
    if restarts:  # a fixed numbering of nodes does not survive a restart, so then they come in any order
        meet = ["--rdzv-backend", "c10d", "--rdzv-endpoint", where, *first, "--max-restarts", str(restarts)]
    launcher = [python, "-m", "torch.distributed.run", *count, *meet, "--no-python", *command]
    own = {k: v for k, v in environment.items() if _TRAVELS.fullmatch(k) and k != "PYTHONPATH"}
    searched = environment.get("PYTHONPATH", "")
    return _SCRIPT.format(
        size=archive_bytes,
        folder=shlex.quote(folder),
        variables=" ".join(f"{k}={shlex.quote(v)}" for k, v in sorted(own.items())),
        searched=shlex.quote(f":{searched}") if searched else "",
        command=shlex.join(launcher),
    )
