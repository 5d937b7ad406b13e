"""Where other nodes come in: the desk listens, prints a line for them to type, and knows who is here.

    paceline join TOKEN@HOST:PORT

The port is 29560 unless another study has it, or the one asked for, so that a firewall can let one port through.

A Member is a node that has joined: its number (the desk itself is node 0), its connection, and the addresses on both
ends of it, which are the route between the two.
"""

from __future__ import annotations

import contextlib
import errno
import secrets
import select
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic

from paceline import __version__
from paceline.core.errors import PacelineError, TokenRefused, UsageError
from paceline.launch.nodes.handshakes import Came, Handshakes
from paceline.launch.nodes.route import Way, listening, own_addresses, own_loopback, way_at
from paceline.launch.nodes.wire import Message, Wire, WireLost

__all__ = ["PORT", "PROTOCOL", "Gate", "Invitation", "Member", "invitation"]

PROTOCOL = 1
PORT = 29560


@dataclass(frozen=True, slots=True)
class Invitation:
    """TOKEN@HOST:PORT, any part of which may be left to the desk."""

    token: str | None = None
    host: str | None = None
    port: int | None = None

    @property
    def place(self) -> str:
        """host:port, as a person writes it."""
        return f"[{self.host}]:{self.port}" if ":" in (self.host or "") else f"{self.host}:{self.port}"


def invitation(text: str) -> Invitation:
    """The parts of `TOKEN@HOST:PORT`, `@HOST`, `:PORT`, `[IPv6]:PORT`, `IPv6`."""
    token, _, place = text.rpartition("@")
    bare = place.endswith("]") or (place.count(":") > 1 and not place.startswith("["))
    host, colon, port = (place, "", "") if bare else place.rpartition(":")
    if not colon:
        host = place
    if colon and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise UsageError(
            f"{port!r} in {text!r} is not a port", hint="write TOKEN@HOST:PORT, as the study printed it"
        )
    return Invitation(token or None, host.strip("[]") or None, int(port) if colon else None)


class Member:
    """One joined node, for as long as its connection holds. `desk_seen_as`: the address that it found the desk at."""

    def __init__(self, wire: Wire, *, node: int, host: str, desk_seen_as: str | None = None) -> None:
        self.wire = wire
        self.node = node
        self.host = host
        self.desk_seen_as = desk_seen_as
        self.lost: str | None = None

    @property
    def name(self) -> str:
        return f"node {self.node} ({self.host}, {self.wire.peer_address})"

    @property
    def desk_way(self) -> Way:
        """How this node reaches the desk."""
        return way_at(self.wire.own_address)

    def lose(self, why: str) -> None:
        if self.lost is None:
            self.lost = why
            self.wire.close()


class Gate:
    """Listens for nodes from its opening until it is closed; then every node is sent home."""

    def __init__(self, asked: Invitation, say: Callable[[str], None]) -> None:
        self.token = asked.token or secrets.token_hex(12)
        self._say = say
        self.members: list[Member] = []
        self._addresses = (asked.host,) if asked.host else own_addresses()
        try:
            at = _own_address(asked.host, say)
            self._server = _listening(at, asked.port) if asked.port else _usual(at)
        except OSError as problem:
            raise PacelineError(
                f"cannot listen at {asked.host or 'any address'}:{asked.port or 'any port'}: {problem.strerror}",
                hint="--join @ADDRESS:PORT, an address of this machine and a free port",
            ) from problem
        self._handshakes = Handshakes(self.token)
        self.port: int = self._server.getsockname()[1]

    @property
    def join_lines(self) -> tuple[str, ...]:
        """What to type on the other nodes: one line for each address of this machine, the likeliest first."""
        places = [Invitation(host=host, port=self.port).place for host in self._addresses]
        return tuple(f"paceline join {self.token}@{place}" for place in places)

    @property
    def present(self) -> list[Member]:
        return [member for member in self.members if member.lost is None]

    def admit(self, wait_s: float) -> Member | None:
        """Let one node in that has proved itself; None when none has within `wait_s`, or a stranger was turned away.

        Whoever stands before the gate begins to prove itself meanwhile, and is fetched by a later call."""
        until = monotonic() + wait_s
        while True:
            came = self._handshakes.fetched()
            if came is not None:
                return self._judged(came)
            ready, _, _ = select.select(
                [self._server.fileno(), self._handshakes.fileno()], [], [], max(0.0, until - monotonic())
            )
            if not ready:
                return None
            if self._server.fileno() in ready:
                with contextlib.suppress(OSError):  # it has gone again
                    self._handshakes.begin(self._server.accept()[0])

    def arrivals(self, wait_s: float) -> Iterator[Member]:
        """The nodes that have come; who has not proved itself within `wait_s` is not waited for."""
        until = monotonic() + wait_s
        while self._somebody() and monotonic() < until:
            member = self.admit(until - monotonic())
            if member is not None:
                yield member

    def _somebody(self) -> bool:
        ready, _, _ = select.select([self._server], [], [], 0.0)
        return bool(ready) or self._handshakes.waiting

    def _judged(self, came: Came) -> Member | None:
        """The member that a connection becomes; a stranger is named."""
        try:
            if came.problem is not None:
                raise came.problem
            assert came.wire is not None
            assert came.hello is not None
            member = self._welcomed(came.wire, came.hello)
        except TokenRefused as problem:
            self._say(f"{problem.message}: turned away")
            return None
        except WireLost:  # a port scan, or a node that gave up: it may come again
            if came.wire is not None:
                came.wire.close()
            return None
        self.members.append(member)
        return member

    def heard(self, beside: Sequence[Member] = ()) -> None:
        """Take in what nodes say that have no part in a trial (all but those in `beside`), and say that we are here."""
        for member in [member for member in self.present if member not in beside]:
            try:
                while (message := member.wire.receive(0.0)) is not None:
                    if message.kind == "leaving":
                        member.lose("it left")
                        break
                else:
                    member.wire.send("here")
            except WireLost as problem:
                member.lose(str(problem))

    def dismiss(self, member: Member, why: str) -> None:
        """Send one node home, and tell it why."""
        with contextlib.suppress(WireLost):
            member.wire.send("bye", b"", reason=why)
        member.lose(why)

    def close(self, why: str = "the study is over") -> None:
        """Let nobody in any more, and send every node home."""
        self._server.close()
        self._handshakes.close()
        for member in self.present:
            self.dismiss(member, why)

    def _welcomed(self, wire: Wire, hello: Message) -> Member:
        if hello.values.get("protocol") != PROTOCOL:
            with contextlib.suppress(WireLost):
                wire.send("refused", reason=f"the desk is Paceline {__version__}, protocol {PROTOCOL}")
            wire.close()
            self._say(
                f"{hello.values.get('host')} speaks another protocol ({hello.values.get('paceline')}): turned away"
            )
            raise WireLost("another protocol")
        taken = {member.node for member in self.present}
        number = next(node for node in range(1, len(taken) + 2) if node not in taken)
        seen = hello.values.get("desk")
        member = Member(
            wire, node=number, host=str(hello.values.get("host")), desk_seen_as=str(seen) if seen else None
        )
        wire.send("welcome", node=number, paceline=__version__)
        return member


def _own_address(host: str | None, say: Callable[[str], None]) -> str | None:
    """The address to listen at; None: at all of them."""
    if host is None:
        return None
    own = own_loopback(host)
    if own is None:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    say(f"{host} is {own} on this machine, which others cannot reach: listening at every address instead")
    return None


def _usual(address: str | None) -> socket.socket:
    """The usual port, or any free one where another study has it."""
    try:
        return _listening(address, PORT)
    except OSError:
        return _listening(address, 0)


def _listening(address: str | None, port: int) -> socket.socket:
    """A server at the address; without one, at every address of both families."""
    if address is not None:
        return listening(address, port=port)
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as problem:
            if problem.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):  # else IPv6 is switched off
                raise
    return listening("", port=port)
