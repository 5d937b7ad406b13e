"""Who knocks proves that it holds the token, beside the study: a stranger that dawdles keeps nobody waiting.

Every connection has a thread of its own and one deadline for everything up to its greeting, however slowly bytes come.
What came of it is fetched by whoever asks; until then the study goes on. More than so many at once are sent away.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from dataclasses import dataclass
from time import monotonic

from paceline.core.errors import TokenRefused
from paceline.launch.nodes.wire import Message, Wire, WireLost, desk_handshake

__all__ = ["Came", "Handshakes"]

DEADLINE_S = 10.0
_MOST_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Came:
    """What came of one connection: a wire with its greeting, or why there is none."""

    wire: Wire | None = None
    hello: Message | None = None
    problem: TokenRefused | WireLost | None = None


class Handshakes:
    """The connections that have not proved themselves yet."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._came: queue.SimpleQueue[Came] = queue.SimpleQueue()
        self._under_way: set[socket.socket] = set()
        self._woken, self._wake = socket.socketpair()

    def fileno(self) -> int:
        """Readable when something has come of a connection."""
        return self._woken.fileno()

    @property
    def waiting(self) -> bool:
        """Whether anybody is still to prove itself, or to be fetched."""
        return bool(self._under_way) or not self._came.empty()

    def begin(self, connection: socket.socket) -> None:
        """Let a connection prove itself, or send it away where too many do."""
        if len(self._under_way) >= _MOST_AT_ONCE:
            connection.close()
            return
        self._under_way.add(connection)
        threading.Thread(target=self._shake, args=(connection,), daemon=True).start()

    def fetched(self) -> Came | None:
        """What came of one connection; None where nothing has."""
        try:
            came = self._came.get_nowait()
        except queue.Empty:
            return None
        self._woken.recv(1)
        return came

    def close(self) -> None:
        """Send everybody away."""
        for connection in tuple(self._under_way):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        while (came := self.fetched()) is not None:
            if came.wire is not None:
                came.wire.close()
        self._woken.close()
        self._wake.close()

    def _shake(self, connection: socket.socket) -> None:
        until = monotonic() + DEADLINE_S
        try:
            wire = desk_handshake(connection, self._token, until=until)
            hello = wire.receive(until - monotonic())
            if hello is None or hello.kind != "hello":
                raise WireLost("no greeting")
            came = Came(wire, hello)
        except (TokenRefused, WireLost) as problem:
            connection.close()
            came = Came(problem=problem)
        self._came.put(came)
        self._under_way.discard(connection)
        try:
            self._wake.send(b".")
        except OSError:  # nobody asks any more
            connection.close()
