"""Trials over several nodes: the desk's own machine is node 0, the others have joined (gate.py).

Each node of a trial starts the same torchrun command; they meet at the desk's address as the first joined node
reaches it, on a free port. The desk passes on what nodes report (heartbeats, failures) into its own trial folder, so
that one watchdog sees all workers, and fetches every file at the end: no file system is shared.

ended     when every node has; a node that failed gives the others OTHERS_S to notice
lost      a node whose connection breaks, or that says nothing for SILENT_S: lost-N.json in the trial folder says why
"""

from __future__ import annotations

import json
import os
import signal
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from paceline.launch.command import Command, Rendezvous, on_node
from paceline.launch.local import LocalLaunch, LocalLauncher
from paceline.launch.nodes.files import packed, written
from paceline.launch.nodes.gate import Gate, Member
from paceline.launch.nodes.route import free_port
from paceline.launch.nodes.wire import Message, WireLost
from paceline.records import Trial

__all__ = ["NodesLauncher"]

_OTHERS_S = 10.0
_SILENT_S = 30.0
_FETCH_S = 60.0
_PING_S = 5.0
_ARRIVE_S = 3.0  # a node that is there proves itself in milliseconds


_HEARTBEAT = struct.Struct("<QdQQ")  # steps, seconds, pid, phase; see docs/reference/files.md


@dataclass(slots=True)
class _Part:
    """One joined node's part in a trial."""

    member: Member
    code: int | None = None
    done: bool = False
    pids: set[int] = field(default_factory=set)  # of its workers


class NodesLaunch:
    """One trial under way on this node and on some of those that have joined; the others are kept awake."""

    def __init__(self, here: LocalLaunch, parts: Sequence[_Part], command: Command, gate: Gate) -> None:
        self._here = here
        self._parts = parts
        self._gate = gate
        self._folder = Path(command.trial_dir)
        self._failed_s: float | None = None
        self._spoke_s = time.monotonic()
        self._over = False

    def exit_code(self) -> int | None:
        """As torchrun's own; 1 as soon as a node is lost."""
        for part in self._parts:
            self._hear(part, 0.0)
        self._ping()
        if any(part.member.lost for part in self._parts):
            return 1
        codes = [self._here.exit_code(), *(part.code for part in self._parts)]
        bad = next((code for code in codes if code), None)
        if bad is None:
            return 0 if all(code == 0 for code in codes) else None
        self._failed_s = self._failed_s or time.monotonic()
        waited = time.monotonic() - self._failed_s > _OTHERS_S
        return bad if waited or None not in codes else None

    def ask_stacks(self, pid: int) -> bool:
        """Ask on the node whose worker it is: elsewhere the same number may be a torchrun, which would die of it."""
        for part in self._parts:
            if pid in part.pids:
                return self._told(part, "stacks", pid=pid)
        return self._here.ask_stacks(pid)

    def end(self) -> None:
        """End the trial on every node and fetch what it left there. Safe to call twice."""
        if self._over:
            return
        self._over = True
        for part in self._parts:
            self._told(part, "end")
        self._here.end()
        until = time.monotonic() + _FETCH_S
        for part in self._parts:
            while not part.done and part.member.lost is None:
                self._hear(part, 0.5)
                if time.monotonic() > until:
                    part.member.lose(f"it did not end the run within {_FETCH_S:.0f} s")
        for part in self._parts:
            if part.member.lost is not None:
                self._note(part.member, f"was lost: {part.member.lost}")

    def _hear(self, part: _Part, wait_s: float) -> None:
        """Take in what a node has sent."""
        member = part.member
        if member.lost is not None:
            return
        try:
            while (message := member.wire.receive(wait_s)) is not None:
                self._take(part, message)
                if part.done or member.lost is not None:
                    return
        except WireLost as problem:
            member.lose(str(problem))
        if time.monotonic() - member.wire.heard_s > _SILENT_S:
            member.lose(f"nothing heard from it for {_SILENT_S:.0f} s")

    def _take(self, part: _Part, message: Message) -> None:
        match message.kind:
            case "file":
                name, first = message.values.get("name"), message.values.get("first") is True
                written(self._folder, name, message.body, first=first)
                if str(name).startswith("heartbeat-") and len(message.body) >= _HEARTBEAT.size:
                    part.pids.add(_HEARTBEAT.unpack_from(message.body)[2])
            case "ended":
                part.code = int(str(message.values["code"]))
                if message.values.get("problem"):
                    self._note(part.member, f"could not start the run: {message.values['problem']}")
                elif part.code < 0 and not self._over:
                    self._note(part.member, f"had its launcher killed by {signal.Signals(-part.code).name}")
            case "done":
                part.done = True
            case "leaving":
                part.member.lose("it left")
            case _:
                pass  # "alive"

    def _told(self, part: _Part, kind: str, **values: object) -> bool:
        if part.member.lost is not None:
            return False
        try:
            part.member.wire.send(kind, b"", **values)
        except WireLost as problem:
            part.member.lose(str(problem))
            return False
        return True

    def _ping(self) -> None:
        if time.monotonic() - self._spoke_s > _PING_S:
            self._spoke_s = time.monotonic()
            for part in self._parts:
                self._told(part, "here")
            self._gate.heard(beside=[part.member for part in self._parts])

    def _note(self, member: Member, what: str) -> None:
        """Why the trial could not go on with this node."""
        data = {"node": member.node, "host": member.host, "reason": f"{member.name} {what}"}
        (self._folder / f"lost-{member.node}.json").write_text(json.dumps(data), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class NodesLauncher:
    """Starts trials on this machine and on as many joined nodes as each trial asks for."""

    gate: Gate
    script: str | None  # the script as it stands in the command line, which lies elsewhere on a node told so
    say: Callable[[str], None]
    newcomer: Callable[[Member], str | None]  # looks at a node that comes later; why it is sent home
    local: LocalLauncher = field(default_factory=LocalLauncher)

    def rendezvous(self, trial: Trial) -> Rendezvous:
        """A free port at the desk's address on the route to the other nodes."""
        address = self._address()
        host = f"[{address}]" if ":" in address else address
        return Rendezvous(f"{host}:{free_port(address)}", f"{trial.id}-{os.getpid()}")

    def start(self, command: Command, output: BinaryIO) -> NodesLaunch:
        nodes = _nodes_of(command)
        if nodes == 1:
            return NodesLaunch(self.local.start(command, output), (), command, self.gate)
        # one that was lost a moment ago takes part as lost, so that the trial ends at once and says so
        lost = [member for member in reversed(self.gate.members) if member.lost is not None]
        members = [*self.gate.present, *lost][: nodes - 1]
        archive = packed(Path(command.trial_dir) / "agent")
        parts = []
        for member in members:
            part = _Part(member)
            parts.append(part)
            if member.lost is not None:
                continue
            try:
                member.wire.send(
                    "start",
                    archive,
                    trial=command.tag.rpartition(":")[2],
                    argv=list(command.argv),
                    environment={k: v for k, v in command.environment.items() if k != "PYTHONPATH"},
                    directory=command.directory,
                    script=self.script,
                    tag=command.tag,
                )
            except WireLost as problem:
                member.lose(str(problem))
        way = members[0].desk_way
        own = on_node(
            command, address=way.address, interface=way.interface, holds=True, environment=os.environ
        )
        return NodesLaunch(self.local.start(own, output), parts, command, self.gate)

    def end_leftovers(self, study_tag: str) -> int:
        return self.local.end_leftovers(study_tag)

    def refusal(self, trial: Trial) -> str | None:
        """Why this trial cannot be started now; nodes that have come meanwhile are let in first."""
        self.gate.heard()
        for member in self.gate.arrivals(_ARRIVE_S):  # several may have come while a trial was under way
            refused = self.newcomer(member)
            self.say(f"{member.name} joined" if refused is None else f"{member.name} is sent home: {refused}")
            if refused is not None:
                self.gate.dismiss(member, refused)
        here = 1 + len(self.gate.present)
        if trial.point.nodes <= here:
            return None
        return f"needs {trial.point.nodes} nodes, {here} {'is' if here == 1 else 'are'} here"

    def _address(self) -> str:
        return (self.gate.present or self.gate.members)[0].wire.own_address


def _nodes_of(command: Command) -> int:
    return int(command.argv[command.argv.index("--nnodes") + 1]) if "--nnodes" in command.argv else 1
