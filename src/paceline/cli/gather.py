"""Other nodes come in: the line to type there, who has come, and what each of them is, before anything is started."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer

from paceline.core.errors import Interrupted, PacelineError
from paceline.core.units import duration_text
from paceline.launch.command import INTERFACE_VARIABLES
from paceline.launch.inspection import Asked, inspected
from paceline.launch.nodes.gate import Gate, Invitation, invitation
from paceline.plan.preflight import Facts

__all__ = ["JOIN_WAIT_S", "Join", "JoinWait", "assembled", "opened", "say_ways"]

Join = Annotated[
    str | None,
    typer.Option(metavar="TOKEN@HOST:PORT", help="Where other nodes join; any part: @HOST, :PORT."),
]
JoinWait = Annotated[str | None, typer.Option(help="How long to wait for nodes to join.  [default: 10min]")]

JOIN_WAIT_S = 600.0
_SAY_AGAIN_S = 30.0


@contextmanager
def opened(join: str | None, *, what: str) -> Iterator[Gate]:
    """The gate, as it was asked for. Nodes are told why they are sent home where it ends with an error."""
    gate = Gate(invitation(join) if join else Invitation(), _say)
    try:
        yield gate
    except PacelineError as problem:
        gate.close(problem.message)
        raise
    finally:
        gate.close(f"the {what} is over")


def assembled(gate: Gate, nodes: int, asked: Asked, *, wait_s: float, what: str) -> tuple[Facts, ...]:
    """The Facts of this node and of all others that the study (or the probe) needs.

    A node that is lost while it is looked at is named, and another one is waited for.
    """
    while True:
        try:
            _gathered(gate, nodes, wait_s=wait_s, what=what)
            members = gate.present
            facts = inspected(asked, members)
        except KeyboardInterrupt:
            raise Interrupted(
                f"stopped before {nodes} nodes were ready; nothing was started",
                hint="the same command waits again",
            ) from None
        lost = [member for member in members if member.lost is not None]
        if not lost:
            return facts
        for member in lost:
            _say(f"{member.name} was lost: {member.lost}")


def say_ways(facts: Sequence[Facts]) -> None:
    """Which interface every node will exchange over: chosen by route, unless the user has set it."""
    for node in facts:
        own = dict(node.environment)
        kept = [f"{name}={own[name]}" for name in INTERFACE_VARIABLES if own.get(name)]
        chosen = f"{node.address} on {node.interface or 'an unnamed interface'}, by route"
        _say(
            f"node {node.node} ({node.host}) communicates over {chosen}"
            + (f"; your {', '.join(kept)} stands" if kept else "")
        )


def _gathered(gate: Gate, nodes: int, *, wait_s: float, what: str) -> None:
    """Wait until as many nodes are here as are needed, and say who has come."""
    line, *others = gate.join_lines
    missing = nodes - 1 - len(gate.present)
    _say(f"This {what} needs {nodes} nodes. Type on {_others(missing)}:\n\n    {line}\n")
    if others:
        _say(
            "where that address is not reachable: "
            + ", or ".join(other.rpartition("@")[2] for other in others)
        )
    began = said = time.monotonic()
    while 1 + len(gate.present) < nodes:
        member = gate.admit(1.0)
        gate.heard()
        now = time.monotonic()
        if member is not None:
            _say(f"{member.name} joined: {1 + len(gate.present)} of {nodes} nodes are here")
        elif now - began > wait_s:
            raise PacelineError(
                f"{1 + len(gate.present)} of {nodes} nodes were here after {duration_text(wait_s)}",
                hint="--join-wait 1h waits longer; --join TOKEN@HOST:PORT keeps the line that others type the same",
            )
        elif now - said > _SAY_AGAIN_S:
            said = now
            _say(f"waiting for {_others(nodes - 1 - len(gate.present))}; Ctrl-C stops")


def _others(count: int) -> str:
    return f"{count} other node{'' if count == 1 else 's'}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
