"""The options of horovodrun that `paceline horovod run` takes, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from paceline.core.errors import UsageError
from paceline.launch.horovod.hosts import Host, hosts_in, hosts_of

__all__ = ["RUN", "RunOptions", "run_options"]

RUN = "paceline horovod run -np 4 python train.py"
_NUMBERS = {
    "-np": "workers",
    "--num-proc": "workers",
    "--reset-limit": "restarts",
    "-p": "ssh_port",
    "--ssh-port": "ssh_port",
    "--master-port": "master_port",
}
_VARIABLES = {
    "--timeline-filename": "HOROVOD_TIMELINE",
    "--stall-check-warning-time-seconds": "HOROVOD_STALL_CHECK_TIME_SECONDS",
    "--stall-check-shutdown-time-seconds": "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
    "--network-interface": "GLOO_SOCKET_IFNAME",
    "--network-interfaces": "GLOO_SOCKET_IFNAME",
}
_FLAGS = {
    "--timeline-mark-cycles": "HOROVOD_TIMELINE_MARK_CYCLES",
    "--no-stall-check": "HOROVOD_STALL_CHECK_DISABLE",
}
_NO_MATTER = {"--gloo", "--verbose", "--disable-cache"}
_NO_MATTER_VALUES = {"--start-timeout", "--cycle-time-ms", "--cache-capacity", "--log-level"}


@dataclass
class RunOptions:
    """What was asked for, and the command to run."""

    workers: int | None = None
    restarts: int = 0
    hosts: tuple[Host, ...] | None = None
    ssh_port: int | None = None
    identity: str | None = None
    master_port: int | None = None
    environment: dict[str, str] = field(default_factory=dict)
    command: list[str] = field(default_factory=list)


def run_options(args: Sequence[str]) -> RunOptions:
    """Options up to the first word that is none; the rest is the command."""
    options = RunOptions()
    rest = list(args)
    while rest and rest[0].startswith("-"):
        option, equals, value = rest.pop(0).partition("=")
        if option == "--":
            break
        if option in _FLAGS:
            options.environment[_FLAGS[option]] = "1"
            continue
        if option in _NO_MATTER:
            continue
        if option == "--mpi":
            raise UsageError(
                "--mpi: there is no MPI here, workers talk over gloo or NCCL", hint="leave --mpi out"
            )
        if not equals:
            value = rest.pop(0) if rest else ""
        _take(options, option, value)
    options.command = rest
    if not rest:
        raise UsageError("horovod run was not told the command to run", hint=RUN)
    return options


def _take(options: RunOptions, option: str, value: str) -> None:
    if option in ("-H", "--hosts", "-hostfile", "--hostfile"):
        options.hosts = hosts_of(value) if option in ("-H", "--hosts") else _hostfile(value)
    elif option in _NUMBERS:
        least = 0 if option == "--reset-limit" else 1
        if not value.isdigit() or int(value) < least:
            raise UsageError(f"{option} {value!r} is not a number it can use", hint=RUN)
        setattr(options, _NUMBERS[option], int(value))
    elif option in ("-i", "--ssh-identity-file"):
        options.identity = value
    elif option in _VARIABLES:
        options.environment[_VARIABLES[option]] = value
        if _VARIABLES[option] == "GLOO_SOCKET_IFNAME":
            options.environment["NCCL_SOCKET_IFNAME"] = value
    elif option == "--fusion-threshold-mb":
        if not value.isdigit():
            raise UsageError(f"{option} {value!r} is not a number it can use", hint=RUN)
        options.environment["HOROVOD_FUSION_THRESHOLD"] = str(int(value) << 20)
    elif option not in _NO_MATTER_VALUES:
        raise UsageError(f"horovod run does not know {option}", hint=RUN)


def _hostfile(name: str) -> tuple[Host, ...]:
    path = Path(name)
    if not path.is_file():
        raise UsageError(f"there is no hostfile {name}", hint="one line per host: node1 slots=4")
    return hosts_in(path.read_text(encoding="utf-8"), name=name)
