"""Trials on the hosts of a laboratory: one torchrun per host, each inside its namespace and under its CPU quota.

The desk stays outside. Hosts share its disk, so one desk watches all of them through the trial's folder; what they
exchange goes through the laboratory's links alone.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from time import monotonic
from typing import BinaryIO

from paceline.core.errors import UsageError
from paceline.launch.command import Command, Rendezvous, on_node
from paceline.launch.local import LocalLaunch, LocalLauncher
from paceline.records import Trial
from paceline.testbed.blueprint import Host, Lab
from paceline.testbed.quota import join_file

__all__ = ["LabLaunch", "LabLauncher", "inside", "rendezvous_in"]

_FIRST_PORT, _PORTS = 29_500, 20_000
_NOTICE_S = 5.0  # what the other hosts get to notice that one has gone, before the trial is over
_ENTER = 'if [ -n "$0" ]; then echo $$ > "$0"; fi; exec "$@"'


class LabLaunch:
    """One trial under way on several hosts."""

    def __init__(self, parts: list[tuple[Host, LocalLaunch]], output: BinaryIO) -> None:
        self._parts = parts
        self._output = output
        self._failed_at: float | None = None
        self._told = b""

    def exit_code(self) -> int | None:
        """None while any host is at it; after one has failed, the others get a little time to notice."""
        codes = [launch.exit_code() for _, launch in self._parts]
        failed = next((code for code in codes if code), None)
        if failed is None:
            return None if None in codes else 0
        if self._failed_at is None:
            self._failed_at = monotonic()
            self._tell(codes)
        if None not in codes or monotonic() - self._failed_at > _NOTICE_S:
            return failed
        return None

    def ask_stacks(self, pid: int) -> bool:
        return self._parts[0][1].ask_stacks(pid)

    def end(self) -> None:
        """End all hosts; which of them failed first is the last word in the log, after what the others say."""
        for _, launch in self._parts:
            launch.end()
        if self._told:
            self._output.write(self._told)
            self._output.flush()
            self._told = b""

    def _tell(self, codes: list[int | None]) -> None:
        for (host, _), code in zip(self._parts, codes, strict=True):
            if code:
                how = (
                    f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
                )
                self._told += f"host {host.number} of {len(self._parts)}: its launcher {how}\n".encode()


@dataclass(frozen=True, slots=True)
class LabLauncher:
    """Starts trials on the first hosts of a lab, as many as the trial has nodes."""

    lab: Lab

    def start(self, command: Command, output: BinaryIO) -> LabLaunch:
        nodes = _nodes(command)
        if nodes > len(self.lab.hosts):
            raise UsageError(
                f"{nodes} nodes are asked for, and the laboratory has {len(self.lab.hosts)} hosts",
                hint=f"paceline lab study --hosts {nodes} …",
            )
        parts: list[tuple[Host, LocalLaunch]] = []
        try:
            for host in self.lab.hosts[:nodes]:
                own = command
                if nodes > 1:
                    own = on_node(
                        command,
                        address=host.address,
                        interface="eth0",
                        holds=host.number == 1,
                        environment=os.environ,
                    )
                parts.append((host, LocalLauncher().start(inside(host, own), output)))
        except BaseException:
            for _, launch in parts:
                launch.end()
            raise
        return LabLaunch(parts, output)

    def end_leftovers(self, study_tag: str) -> int:
        return LocalLauncher().end_leftovers(study_tag)


def rendezvous_in(lab: Lab) -> Callable[[Trial], Rendezvous]:
    """Where the nodes of a trial meet: on the first host, at a port that the trial before did not use."""
    ports = count(os.getpid() % _PORTS)

    def meet(trial: Trial) -> Rendezvous:
        return Rendezvous(f"{lab.hosts[0].address}:{_FIRST_PORT + next(ports) % _PORTS}", trial.id)

    return meet


def inside(host: Host, command: Command) -> Command:
    """The same command in the host's network, under its quota."""
    group = join_file(host)
    enter = ("nsenter", f"--net=/run/netns/{host.namespace}", "sh", "-c", _ENTER, str(group or ""))
    return replace(command, argv=(*enter, *command.argv))


def _nodes(command: Command) -> int:
    """As many nodes as torchrun is told; a script that starts its own workers has one."""
    argv = command.argv
    return int(argv[argv.index("--nnodes") + 1]) if "--nnodes" in argv else 1
