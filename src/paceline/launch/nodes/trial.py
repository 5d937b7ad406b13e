"""One trial on a joined node: a scratch folder, torchrun as a child that cannot outlive the joiner, and its files.

The desk's trial folder does not exist here. Everything that named it (the agent's order, the search path) names the
scratch folder instead, and what is written there is sent to the desk: heartbeats and failures while the trial
runs, all files when it has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import struct
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from paceline.launch.command import Command, on_node
from paceline.launch.local import LocalLauncher
from paceline.launch.logs import shorten, thin
from paceline.launch.nodes.files import safe_name, unpacked
from paceline.launch.nodes.route import Way
from paceline.launch.telemetry import NODE_VARIABLE, Sampler

__all__ = ["NodeTrial", "Order", "remove_abandoned"]

_SCRATCH = "paceline-node-"
_WATCHED = ("heartbeat-", "exit-", "failed-", "stacks-", "standing-")
_HEARTBEAT = struct.Struct("<QdQQ")  # steps, seconds, pid, phase; see docs/reference/files.md


@dataclass(frozen=True, slots=True)
class Order:
    """What a node is told to start: the command of the trial, made the node's own."""

    trial: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    directory: str
    tag: str
    node: int

    def command(self, scratch: Path, way: Way, *, environment: Mapping[str, str]) -> Command:
        """The Command in this node's scratch folder, reached at this node's address."""
        asked = json.loads(self.environment["PACELINE_TRIAL"])
        searched = [
            str(scratch / "agent"),
            *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)),
        ]
        own = {
            **self.environment,
            "PACELINE_TRIAL": json.dumps({**asked, "dir": str(scratch)}),
            "PYTHONPATH": os.pathsep.join(searched),
            NODE_VARIABLE: str(self.node),
        }
        command = Command(self.argv, self.directory, own, str(scratch), self.tag)
        return on_node(
            command, address=way.address, interface=way.interface, holds=False, environment=environment
        )


class NodeTrial:
    """A trial under way on this node. Closed, it leaves no process and no folder."""

    def __init__(self, order: Order, archive: bytes, *, way: Way) -> None:
        self.id = order.trial
        self._node = order.node
        self._sent: dict[str, bytes] = {}
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_SCRATCH}{os.getpid()}-"))
        self._sampler = Sampler(self.folder, tag=order.tag, node=order.node)
        with contextlib.ExitStack() as undone:  # a full disk, a folder that is gone: nothing stays behind
            undone.callback(shutil.rmtree, self.folder, ignore_errors=True)
            unpacked(archive, self.folder / "agent")
            self._log = undone.enter_context((self.folder / f"launcher-{order.node}.log").open("wb"))
            command = order.command(self.folder, way, environment=os.environ)
            self._launch = LocalLauncher().start(command, self._log)
            undone.pop_all()

    def exit_code(self) -> int | None:
        return self._launch.exit_code()

    def ask_stacks(self, pid: int) -> bool:
        return self._launch.ask_stacks(pid)

    def changes(self) -> Iterator[tuple[str, bytes]]:
        """Small files that the desk watches, whenever their content is another."""
        pids = []
        for path in self._paths():
            if not path.name.startswith(_WATCHED):
                continue
            with contextlib.suppress(OSError):
                content = path.read_bytes()
                if path.name.startswith("heartbeat-") and len(content) >= _HEARTBEAT.size:
                    pids.append((int(path.name.partition("-")[2]), _HEARTBEAT.unpack_from(content)[2]))
                if content != self._sent.get(path.name):
                    self._sent[path.name] = content
                    yield path.name, content
        self._sampler.look(pids)
        thin(self.folder)

    def end(self) -> None:
        """End every process of the trial on this node."""
        self._launch.end()
        self._log.close()
        self._sampler.close()

    def files(self) -> Sequence[Path]:
        """All that the trial left behind, to be sent to the desk. A worker without a rank wrote out-main.log."""
        main = self.folder / "out-main.log"
        if main.exists():
            main.rename(self.folder / f"out-main-{self._node}.log")
        shorten(self.folder)
        return self._paths()

    def close(self) -> None:
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _paths(self) -> list[Path]:
        return [path for path in sorted(self.folder.iterdir()) if safe_name(path.name)]


def remove_abandoned() -> None:
    """Remove our own scratch folders of joiners that were killed: their names carry a process id that is no more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*-*"):
        pid = folder.name.removeprefix(_SCRATCH).partition("-")[0]
        ours = folder.lstat().st_uid == os.geteuid()
        if ours and pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)
