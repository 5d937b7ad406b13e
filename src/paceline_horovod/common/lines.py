"""Lines over sockets: rank 0 listens and matches, every rank (0 too) has one connection to it.

Who connects proves by a secret, drawn by rank 0 and passed through torch.distributed, that it belongs here.
"""

from __future__ import annotations

import contextlib
import hmac
import selectors
import socket
import sys
import threading
from collections.abc import Sequence
from time import monotonic

from paceline_horovod.common.exceptions import HorovodInternalError
from paceline_horovod.common.matching import Matching
from paceline_horovod.common.request import Request, Response, from_line, to_line

__all__ = ["BYE", "Listener", "connect"]

BYE = b"bye\n"
_CONNECT_S = 60.0
_GREETING_BYTES = 256  # more than a secret and a rank need


def connect(addresses: Sequence[tuple[str, int]], *, secret: str, rank: int) -> socket.socket:
    """The connection of this rank to rank 0; the first address that answers."""
    problem: Exception | None = None
    for address in addresses:
        try:
            connection = socket.create_connection(address, timeout=_CONNECT_S)
        except OSError as error:
            problem = error
            continue
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(f"{secret} {rank}\n".encode())
        return connection
    raise HorovodInternalError(f"rank {rank} cannot reach rank 0 at {list(addresses)}: {problem}")


class Listener:
    """Rank 0's thread: takes requests from all ranks, sends out responses, names who stalls."""

    def __init__(self, size: int, *, host: str, secret: str, warn_s: float, fail_s: float) -> None:
        self._matching = Matching(size)
        self._secret = secret
        self._warn_s, self._fail_s = warn_s, fail_s
        self._warned: set[tuple[int, str]] = set()
        self._connections: dict[int, socket.socket] = {}
        self._ranks: dict[socket.socket, int] = {}
        self._partial: dict[socket.socket, bytes] = {}
        self._socket = socket.create_server((host, 0), backlog=max(128, size))
        self.port: int = self._socket.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="paceline-horovod-rank0", daemon=True)
        self._open = True
        self._thread.start()

    def close(self) -> None:
        self._open = False
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            pass  # wakes the thread
        self._thread.join(timeout=5)

    def _serve(self) -> None:
        while self._open:
            for key, _ in self._selector.select(timeout=0.5):
                if key.fileobj is self._socket:
                    self._accept()
                elif isinstance(key.fileobj, socket.socket):
                    self._read(key.fileobj)
            self._look_for_stalls()
        for connection in [self._socket, *self._partial]:
            connection.close()
        self._selector.close()

    def _accept(self) -> None:
        connection, _ = self._socket.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._partial[connection] = b""
        self._selector.register(connection, selectors.EVENT_READ)

    def _read(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self._lose(connection, "has gone: its process ended")
            return
        *lines, rest = (self._partial[connection] + data).split(b"\n")
        self._partial[connection] = rest
        if connection not in self._ranks and len(rest) > _GREETING_BYTES:
            self._lose(connection, "")  # a stranger may not fill our memory
            return
        for line in lines:
            rank = self._ranks.get(connection)
            if rank is None:
                if not self._greeted(connection, line):
                    self._lose(connection, "")
                    return
            elif line + b"\n" == BYE:
                self._lose(connection, "has shut down")
                return
            else:
                request = from_line(line)
                if isinstance(request, Request):
                    self._send(self._matching.ask(rank, request, now_s=monotonic()))

    def _greeted(self, connection: socket.socket, line: bytes) -> bool:
        secret, _, rank = line.decode(errors="replace").partition(" ")
        if not hmac.compare_digest(secret.encode(), self._secret.encode()) or not rank.isdigit():
            return False
        self._ranks[connection] = int(rank)
        self._connections[int(rank)] = connection
        return True

    def _lose(self, connection: socket.socket, reason: str) -> None:
        self._selector.unregister(connection)
        del self._partial[connection]
        connection.close()
        rank = self._ranks.pop(connection, None)
        if rank is not None:
            del self._connections[rank]
            self._send(self._matching.leave(rank, reason))

    def _send(self, due: list[tuple[tuple[int, ...], Response]]) -> None:
        for ranks, response in due:
            self._warned.discard((response.process_set, response.name))
            line = to_line(response)
            for rank in ranks:
                connection = self._connections.get(rank)
                if connection is not None:
                    with contextlib.suppress(OSError):
                        connection.sendall(line)

    def _look_for_stalls(self) -> None:
        now_s = monotonic()
        if self._warn_s > 0:
            for key, missing in self._matching.stalled(now_s=now_s, after_s=self._warn_s):
                if key not in self._warned:
                    self._warned.add(key)
                    sys.stderr.write(
                        f"paceline-horovod: {key[1]} has waited {self._warn_s:g} s for "
                        f"{_named(missing)}; the other ranks are ready\n"
                    )
        if self._fail_s > 0:
            for key, missing in self._matching.stalled(now_s=now_s, after_s=self._fail_s):
                self._send(
                    self._matching.fail(
                        key, f"{key[1]}: {_named(missing)} did not come in {self._fail_s:g} s"
                    )
                )


def _named(ranks: Sequence[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))
