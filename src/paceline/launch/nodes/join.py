"""`paceline join`: this machine serves a study as one of its nodes, until the desk has done or is lost.

hello ->   <- welcome          who is who
<- look    -> facts            what this node is, for preflight
<- clock   -> clock            what time it has
<- listen  -> listening        a port that the others then try to reach
<- reach   -> reached
<- start   -> beat … ended     one trial: heartbeats and failures as they change, the exit code
<- stacks                      ask a worker where it stands
<- end     -> file … done      end the trial, send what it left
<- bye                         the study is over
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from paceline import __version__
from paceline.core.errors import PacelineError
from paceline.core.json_data import plain_data
from paceline.launch.facts import Subject, facts_of_this_node
from paceline.launch.nodes.files import chunks
from paceline.launch.nodes.gate import PROTOCOL, Invitation
from paceline.launch.nodes.knock import connected
from paceline.launch.nodes.route import listening, unreached, way_at
from paceline.launch.nodes.trial import NodeTrial, Order, remove_abandoned
from paceline.launch.nodes.wire import Message, Wire, WireLost

__all__ = ["Here", "joined_study"]

_TICK_S = 0.1
_LOOK_S = 0.5
_ALIVE_S = 2.0
_SILENT_S = 180.0  # a desk that is judging a trial or waiting for other nodes says little
_REACH_S = 5.0


@dataclass(frozen=True, slots=True)
class Here:
    """What is this node's own: its Python, and where the script lies when not where it lies on the desk."""

    python: str | None
    script_folder: str | None


def joined_study(asked: Invitation, here: Here, *, wait_s: float, say: Callable[[str], None]) -> str:
    """Join the study, serve it to its end, and say how it ended. An error when the desk goes without a word."""
    remove_abandoned()
    wire = connected(asked, wait_s=wait_s, say=say)
    try:
        wire.send(
            "hello",
            protocol=PROTOCOL,
            host=socket.gethostname(),
            paceline=__version__,
            desk=wire.peer_address,
        )
        welcome = wire.receive(_SILENT_S)
        if welcome is None or welcome.kind != "welcome":
            reason = welcome.values.get("reason") if welcome else "no answer"
            raise PacelineError(
                f"the study at {asked.host} turned this node away: {reason}",
                hint="install the desk's version of Paceline here",
            )
        node = int(str(welcome.values["node"]))
        say(f"joined as node {node}; the study says what is run. Ctrl-C leaves it.")
        return _Service(wire, here, node=node, say=say).serve()
    except WireLost as problem:
        raise PacelineError(
            f"the study at {asked.host} is lost: {problem}; every process of the run here has ended",
            hint="look at the desk; join again with the line that it prints",
        ) from problem
    finally:
        wire.close()


class _Service:
    """The node's side of one study. Holds at most one trial."""

    def __init__(self, wire: Wire, here: Here, *, node: int, say: Callable[[str], None]) -> None:
        self._wire = wire
        self._here = here
        self._node = node
        self._say = say
        self._way = way_at(wire.own_address)
        self._trial: NodeTrial | None = None
        self._told_end = False
        self._server: socket.socket | None = None

    def serve(self) -> str:
        looked = spoke = time.monotonic()
        try:
            while True:
                message = self._wire.receive(_TICK_S)
                if message is not None and message.kind == "bye":
                    return str(message.values.get("reason"))
                if message is not None:
                    self._answer(message)
                now = time.monotonic()
                if now - looked >= _LOOK_S:
                    looked = now
                    self._report()
                if now - spoke >= _ALIVE_S:
                    spoke = now
                    self._wire.send("alive")
                if now - self._wire.heard_s > _SILENT_S:
                    raise WireLost(f"nothing heard for {_SILENT_S:.0f} s")
        except KeyboardInterrupt:
            with contextlib.suppress(WireLost):
                self._wire.send("leaving")
            raise
        finally:
            self._close_trial()
            self._close_server()

    def _answer(self, message: Message) -> None:
        values = message.values
        match message.kind:
            case "look":
                self._wire.send("facts", facts=plain_data(self._facts(values)))
            case "clock":
                self._wire.send("clock", now_s=time.time())
            case "listen":
                self._close_server()
                self._server = listening(self._way.address)
                self._wire.send("listening", address=self._way.address, port=self._server.getsockname()[1])
            case "reach":
                ports = values["ports"]
                assert isinstance(ports, list)
                self._wire.send("reached", unreachable=unreached(ports, wait_s=_REACH_S))
            case "start":
                self._start(values, message.body)
            case "stacks":
                if self._trial is not None:
                    self._trial.ask_stacks(int(str(values["pid"])))
            case "end":
                self._end()
            case _:
                pass  # "here", or what a later desk may say

    def _facts(self, values: Mapping[str, object]) -> object:
        script, module, directory = values.get("script"), values.get("module"), str(values["directory"])
        home = self._home(directory, script)
        subject = Subject(
            self._python(str(values["python"])),
            None if script is None else _moved(str(script), directory, home),
            devices=values.get("devices") is True,
            module=None if module is None else str(module),
            directory=home,
        )
        return facts_of_this_node(subject, node=self._node, way=self._way)

    def _start(self, values: Mapping[str, object], archive: bytes) -> None:
        self._close_server()
        self._close_trial()
        argv, environment = values["argv"], values["environment"]
        assert isinstance(argv, list)
        assert isinstance(environment, dict)
        directory, script = str(values["directory"]), values.get("script")
        local = [self._python(argv[0]), *argv[1:]]
        home = self._home(directory, script)
        if script is not None:
            local = [_moved(arg, directory, home) if arg == script else arg for arg in local]
        order = Order(
            trial=str(values["trial"]),
            argv=tuple(local),
            environment=environment,
            directory=home,
            tag=str(values["tag"]),
            node=self._node,
        )
        self._told_end = False
        try:
            self._trial = NodeTrial(order, archive, way=self._way)
        except OSError as problem:
            self._say(f"run {order.trial} could not be started: {problem}")
            self._wire.send("ended", trial=order.trial, code=1, problem=str(problem))
            return
        over = f" over {self._way.interface}" if self._way.interface else ""
        self._say(f"run {order.trial}, at {self._way.address}{over}")

    def _report(self) -> None:
        trial = self._trial
        if trial is None:
            return
        for name, content in trial.changes():
            self._wire.send("file", content, trial=trial.id, name=name, first=True)
        code = trial.exit_code()
        if code is not None and not self._told_end:
            self._told_end = True
            self._wire.send("ended", trial=trial.id, code=code)

    def _end(self) -> None:
        trial = self._trial
        if trial is not None:
            trial.end()
            for path in trial.files():
                for piece, first in chunks(path):
                    self._wire.send("file", piece, trial=trial.id, name=path.name, first=first)
            self._close_trial()
        self._wire.send("done", trial=trial.id if trial else None)

    def _close_trial(self) -> None:
        if self._trial is not None:
            self._trial.close()
            self._trial = None

    def _close_server(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _python(self, asked: str) -> str:
        """This node's Python: the one named to join, the desk's path where it exists, the one that runs this."""
        if self._here.python is not None:
            return self._here.python
        return asked if shutil.which(asked) else sys.executable

    def _home(self, directory: str, script: object) -> str:
        """The folder that stands for the desk's: the one named to join, the same one, or where join was started."""
        if self._here.script_folder is not None:
            return self._here.script_folder
        here = os.getcwd()
        if not os.path.isdir(directory):
            return here
        elsewhere = script is not None and not os.path.exists(str(script))
        return here if elsewhere and os.path.exists(_moved(str(script), directory, here)) else directory


def _moved(script: str, directory: str, home: str) -> str:
    """Where the desk's script lies when the folder that it runs in is `home`."""
    inside = os.path.relpath(script, directory)
    if home == directory:
        return script
    return os.path.join(home, os.path.basename(script) if inside.startswith(os.pardir) else inside)
