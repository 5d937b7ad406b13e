"""The connection between the desk and a joined node: messages that only holders of the token can write.

    desk                                       node
    PACELINE1, nonce a            ------->
                                  <-------     nonce b, HMAC(token, "join" a b)
    HMAC(token, "desk" a b)       ------->     both now hold the key HMAC(token, "key" a b)
    frame: length, HMAC(key, direction count payload), payload      either way

A payload is one JSON object and, for files, bytes after it: nothing that is received is ever executed by reading
it (no pickle). Frames are counted, so none can be repeated, left out or altered; they are not encrypted.
HMAC is SHA-256 of our own framing: the standard library's connections use MD5 up to Python 3.11, which some
machines forbid, and block for ever on a peer that stops in the middle of a message. Here nothing waits without a
limit: reading takes what has arrived, writing gives up after SEND_S.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import select
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic

from paceline.core.errors import TokenRefused
from paceline.launch.nodes.route import plain

__all__ = ["Message", "Wire", "WireLost", "desk_handshake", "node_handshake"]

_MAGIC = b"PACELINE1"
_NONCE = 32
_MAC = hashlib.sha256().digest_size
_HEAD = struct.Struct(">I")
_LONGEST = 1 << 26
_HANDSHAKE_S = 10.0
_SEND_S = 20.0


class WireLost(Exception):
    """The other end has gone, or what came from it is damaged."""


@dataclass(frozen=True, slots=True)
class Message:
    """What one side tells the other: a kind, its values, and the bytes of a file where it carries one."""

    kind: str
    values: Mapping[str, object]
    body: bytes = b""


class Wire:
    """One authenticated connection. Reading never blocks for longer than is asked."""

    def __init__(self, connection: socket.socket, key: bytes, *, desk: bool) -> None:
        self._socket = connection
        self._key = key
        self._names = (b"desk", b"node") if desk else (b"node", b"desk")
        self._counts = [0, 0]
        self._buffer = bytearray()
        self.own_address = plain(connection.getsockname()[0])
        self.peer_address = plain(connection.getpeername()[0])
        self.heard_s = monotonic()
        connection.settimeout(_SEND_S)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, kind: str, body: bytes = b"", **values: object) -> None:
        """Send one message. WireLost when the other end does not take it."""
        head = json.dumps({"kind": kind, **values}).encode()
        payload = _HEAD.pack(len(head)) + head + body
        if len(payload) > _LONGEST:
            raise ValueError(f"a message of {len(payload)} bytes is longer than {_LONGEST}")
        frame = _HEAD.pack(len(payload)) + self._mac(0, payload) + payload
        self._counts[0] += 1
        try:
            self._socket.sendall(frame)
        except OSError as problem:
            raise WireLost(_cause(problem)) from problem

    def receive(self, wait_s: float) -> Message | None:
        """The next message, or None when it has not wholly arrived within `wait_s`."""
        until = monotonic() + wait_s
        while True:
            payload = self._frame()
            if payload is not None:
                return _message(payload)
            if not self._arrived(max(0.0, until - monotonic())):
                return None

    def close(self) -> None:
        self._socket.close()

    def _arrived(self, wait_s: float) -> bool:
        """Take what has arrived; False when nothing did."""
        try:
            ready, _, _ = select.select([self._socket], [], [], wait_s)
            if not ready:
                return False
            data = self._socket.recv(1 << 20)
        except (OSError, ValueError) as problem:
            raise WireLost(_cause(problem)) from problem
        if not data:
            raise WireLost("the connection was closed")
        self._buffer += data
        self.heard_s = monotonic()
        return True

    def _frame(self) -> bytes | None:
        if len(self._buffer) < _HEAD.size:
            return None
        (size,) = _HEAD.unpack_from(self._buffer)
        if size > _LONGEST:
            raise WireLost(f"a message of {size} bytes was announced")
        end = _HEAD.size + _MAC + size
        if len(self._buffer) < end:
            return None
        mac, payload = bytes(self._buffer[_HEAD.size : end - size]), bytes(self._buffer[end - size : end])
        del self._buffer[:end]
        if not hmac.compare_digest(mac, self._mac(1, payload)):
            raise WireLost("a message was damaged on its way")
        self._counts[1] += 1
        return payload

    def _mac(self, way: int, payload: bytes) -> bytes:
        """way 0: what this side sends; 1: what the other side sent."""
        count = self._counts[way].to_bytes(8, "big")
        return hmac.digest(self._key, self._names[way] + count + payload, "sha256")


def desk_handshake(connection: socket.socket, token: str, *, until: float | None = None) -> Wire:
    """Prove to a node that this is the desk, once the node has proved that it holds the token."""
    ours, until = os.urandom(_NONCE), monotonic() + _HANDSHAKE_S if until is None else until
    connection.settimeout(_HANDSHAKE_S)
    _keep_alive(connection)
    try:
        connection.sendall(_MAGIC + ours)
        theirs, proof = _exactly(connection, _NONCE, until), _exactly(connection, _MAC, until)
        if not hmac.compare_digest(proof, _proof(token, b"join", ours + theirs)):
            raise TokenRefused(
                f"{plain(connection.getpeername()[0])} knocked with another token",
                hint="copy the whole line that this study printed",
            )
        connection.sendall(_proof(token, b"desk", ours + theirs))
    except OSError as problem:
        raise WireLost(_cause(problem)) from problem
    return Wire(connection, _proof(token, b"key", ours + theirs), desk=True)


def node_handshake(connection: socket.socket, token: str, *, greeting_s: float = _HANDSHAKE_S) -> Wire:
    """Prove to the desk that this node holds the token, and see that the desk does.

    A desk that is busy with a trial greets after it: `greeting_s` is how long to wait for that.
    """
    _keep_alive(connection)
    host, port = connection.getpeername()[:2]
    try:
        greeting = _exactly(connection, len(_MAGIC) + _NONCE, monotonic() + greeting_s)
        until = monotonic() + _HANDSHAKE_S
        if not greeting.startswith(_MAGIC):
            raise TokenRefused(
                f"what answers at {host}:{port} is not a Paceline study", hint="check host and port"
            )
        both = greeting[len(_MAGIC) :] + (own := os.urandom(_NONCE))
        connection.sendall(own + _proof(token, b"join", both))
        try:
            proof = _exactly(connection, _MAC, until)
        except WireLost:
            proof = b""
        if not hmac.compare_digest(proof, _proof(token, b"desk", both)):
            raise TokenRefused(
                f"the study at {host}:{port} does not take this token",
                hint="copy the whole line that the study printed: paceline join TOKEN@HOST:PORT",
            )
    except OSError as problem:
        raise WireLost(_cause(problem)) from problem
    return Wire(connection, _proof(token, b"key", both), desk=False)


def _cause(problem: OSError | ValueError) -> str:
    if isinstance(problem, ConnectionError):
        return "the connection was closed"
    if isinstance(problem, TimeoutError):
        return "no answer in time"
    return str(problem) or type(problem).__name__


def _keep_alive(connection: socket.socket) -> None:
    """Let the kernel notice a machine that is gone, also while nothing is sent."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4), ("TCP_NODELAY", 1)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _exactly(connection: socket.socket, size: int, until: float) -> bytes:
    """So many bytes before that moment: a limit for each of them would let a byte every nine seconds go on for ever."""
    data = b""
    while len(data) < size:
        left = until - monotonic()
        if left <= 0:
            raise WireLost("no answer in time")
        connection.settimeout(left)
        more = connection.recv(size - len(data))
        if not more:
            raise WireLost("the connection was closed")
        data += more
    return data


def _proof(token: str, role: bytes, nonces: bytes) -> bytes:
    return hmac.digest(token.encode(), role + nonces, "sha256")


def _message(payload: bytes) -> Message:
    (size,) = _HEAD.unpack_from(payload)
    values = json.loads(payload[_HEAD.size : _HEAD.size + size])
    return Message(str(values.pop("kind")), values, payload[_HEAD.size + size :])
