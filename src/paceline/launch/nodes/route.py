"""Addresses, interfaces and ports of this machine, as the kernel's routes have them."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import psutil

__all__ = [
    "Way",
    "address_towards",
    "free_port",
    "listening",
    "own_addresses",
    "own_loopback",
    "plain",
    "unreached",
    "way_at",
]


@dataclass(frozen=True, slots=True)
class Way:
    """How others reach this node: its address, the network interface that has it, and that interface's packet size."""

    address: str
    interface: str | None
    mtu_bytes: int | None


def way_at(address: str) -> Way:
    """The interface that carries this address of ours."""
    for name, addresses in psutil.net_if_addrs().items():
        if any(entry.address.partition("%")[0] == address for entry in addresses):
            stats = psutil.net_if_stats().get(name)
            return Way(address, name, stats.mtu if stats else None)
    return Way(address, None, None)


def address_towards(host: str) -> str | None:
    """Our own address on the route to `host`; None when there is no route. Nothing is sent."""
    with contextlib.suppress(OSError):
        family, kind, _, _, target = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    return None


def own_addresses() -> tuple[str, ...]:
    """Addresses that others may reach this machine at: of the default route first, loopback only when alone.

    IPv6 where there is nothing else: a machine that has both is told of by the shorter one.
    """
    four = _outside(
        socket.AF_INET, towards="192.0.2.1"
    )  # documentation addresses: any default route leads there
    return four or _outside(socket.AF_INET6, towards="2001:db8::1") or ("127.0.0.1",)


def own_loopback(name: str) -> str | None:
    """The address of a name that means this machine alone; None of any other, and of addresses and localhost.

    Many machines have their own name in /etc/hosts as 127.0.1.1: no other machine finds them there.
    """
    found = str(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0])
    return found if name not in (found, "localhost") and ipaddress.ip_address(found).is_loopback else None


def plain(address: str) -> str:
    """10.0.0.1 of ::ffff:10.0.0.1, as a socket for both families shows it."""
    with contextlib.suppress(ValueError):
        mapped = getattr(ipaddress.ip_address(address), "ipv4_mapped", None)
        return address if mapped is None else str(mapped)
    return address


def free_port(address: str) -> int:
    """A port that nothing listens on at this address of ours now."""
    with listening(address) as probe:
        return int(probe.getsockname()[1])


def listening(address: str, *, port: int = 0, backlog: int = 128) -> socket.socket:
    """A server at this address of ours; any free port unless one is named."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family, backlog=backlog)


def unreached(places: Sequence[tuple[int, str, int]], *, wait_s: float) -> tuple[int, ...]:
    """The nodes of (node, address, port) to which no connection can be made within `wait_s`; all are tried at once."""
    with ThreadPoolExecutor(max_workers=max(1, len(places))) as pool:
        reached = list(pool.map(lambda place: _reaches(place[1], place[2], wait_s), places))
    return tuple(node for (node, _, _), done in zip(places, reached, strict=True) if not done)


def _reaches(address: str, port: int, wait_s: float) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=wait_s):
        return True
    return False


def _outside(family: socket.AddressFamily, *, towards: str) -> tuple[str, ...]:
    found = [address_towards(towards)]
    up = {name for name, stats in psutil.net_if_stats().items() if stats.isup}
    for name, entries in psutil.net_if_addrs().items():
        found += [entry.address for entry in entries if name in up and entry.family == family]
    kept = [a for a in found if a is not None and not _here_only(a)]
    return tuple(dict.fromkeys(kept))


def _here_only(address: str) -> bool:
    """Whether an address means something on this machine or this cable only."""
    known = ipaddress.ip_address(address.partition("%")[0])
    return known.is_loopback or (known.version == 6 and known.is_link_local)
