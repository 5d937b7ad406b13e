"""A node knocks at the gate of a study, which may still be starting, or busy with a trial, or over.

refused at once, then again     no study yet: tried until the time is up
taken, and no greeting          a study that is busy: it greets between two runs
taken, closed, refused          the study ended before it let this node in: there is nothing to wait for
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable

from paceline.core.errors import PacelineError, TokenRefused
from paceline.core.units import duration_text
from paceline.launch.nodes.gate import Invitation
from paceline.launch.nodes.route import own_loopback
from paceline.launch.nodes.wire import Wire, WireLost, node_handshake

__all__ = ["connected"]

_CONNECT_S = 5.0
_RETRY_S = 1.0


def connected(asked: Invitation, *, wait_s: float, say: Callable[[str], None]) -> Wire:
    """An authenticated connection to the desk, within `wait_s`."""
    token, place = asked.token or "", (asked.host or "", asked.port or 0)
    _say_if_here(asked, say)
    until, told, taken = time.monotonic() + wait_s, False, False
    while True:
        connection: socket.socket | None = None
        try:
            connection = socket.create_connection(place, timeout=_CONNECT_S)
            if not taken:
                say(f"at the study on {asked.place}; one that is busy lets nodes in between two runs")
            taken = True
            return node_handshake(connection, token, greeting_s=max(_RETRY_S, until - time.monotonic()))
        except (OSError, WireLost, TokenRefused) as problem:
            if connection is not None:
                connection.close()
            if isinstance(problem, TokenRefused):
                raise
            if (taken and isinstance(problem, ConnectionRefusedError)) or time.monotonic() >= until:
                raise _given_up(asked, problem, taken=taken, wait_s=wait_s) from problem
            if not told and not taken:
                told = True
                say(f"no study answers at {asked.place} yet ({problem}); trying for {duration_text(wait_s)}")
            time.sleep(_RETRY_S)


def _say_if_here(asked: Invitation, say: Callable[[str], None]) -> None:
    with contextlib.suppress(OSError):
        own = own_loopback(asked.host or "")
        if own is not None:
            say(
                f"{asked.host} is {own} here, this machine itself: give the study's address if it is on another"
            )


def _given_up(asked: Invitation, problem: Exception, *, taken: bool, wait_s: float) -> PacelineError:
    if isinstance(problem, ConnectionRefusedError) and taken:
        return PacelineError(
            f"the study at {asked.place} ended before it let this node in",
            hint="join another one with the line that it prints",
        )
    if taken:
        return PacelineError(
            f"the study at {asked.place} let nobody in for {duration_text(wait_s)}: {problem}",
            hint="--wait 1h waits longer; nodes are let in between two runs",
        )
    return PacelineError(
        f"no study answers at {asked.place}: {problem}",
        hint="check the line that the study printed, that it still waits, and that this node may reach that port",
    )
