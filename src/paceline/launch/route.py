"""Addresses, interfaces and ports of this machine, as the kernel's routes have them."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from dataclasses import dataclass

import psutil

__all__ = ["Way", "address_towards", "free_port", "own_addresses", "reaches", "way_at"]


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
    """Addresses that others may reach this machine at: of the default route first, loopback only when alone."""
    found = [address_towards("192.0.2.1")]  # a documentation address: any default route leads there
    up = {name for name, stats in psutil.net_if_stats().items() if stats.isup}
    for name, entries in psutil.net_if_addrs().items():
        found += [e.address for e in entries if name in up and e.family == socket.AF_INET]
    outside = [a for a in found if a is not None and not ipaddress.ip_address(a).is_loopback]
    return tuple(dict.fromkeys(outside)) or ("127.0.0.1",)


def free_port(address: str) -> int:
    """A port that nothing listens on at this address of ours now."""
    with _listening(address) as probe:
        return int(probe.getsockname()[1])


def reaches(address: str, port: int, *, wait_s: float) -> bool:
    """Whether a connection to this address and port can be made."""
    with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=wait_s):
        return True
    return False


def _listening(address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, 0), family=family)
