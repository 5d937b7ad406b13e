"""What a laboratory is: hosts on one machine, each with its link and its share of a core. Pure data and parsing.

host i      network namespace NAME-hI, address 10.77.0.I, interface eth0
link i      host i to the switch, the same rate both ways
NAME        paceline-lab-PID-START-COUNT: the process that owns it, and when that process began
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.core.errors import UsageError
from paceline.core.units import duration

__all__ = ["MOST_HOSTS", "Host", "Lab", "lab_of", "link_bits_per_s", "rate_words"]

MOST_HOSTS = 64
_NETWORK = "10.77.0"
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmg]?)bit(?:/s)?", re.IGNORECASE)
_FACTOR = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}


@dataclass(frozen=True, slots=True)
class Host:
    """One host: a network namespace, its address, the rate of its link, and the cores that it may use."""

    number: int
    namespace: str
    address: str
    bits_per_s: float | None = None  # None: as fast as the machine
    cores: float | None = None  # None: no limit


@dataclass(frozen=True, slots=True)
class Lab:
    """Hosts on one switch, and the delay of every frame on its way from one host to another."""

    name: str
    hosts: tuple[Host, ...]
    delay_s: float = 0.0

    @property
    def switch(self) -> str:
        """The namespace that holds the bridge."""
        return f"{self.name}-sw"


def lab_of(
    name: str,
    *,
    hosts: int,
    link: str | None = None,
    delay: str | None = None,
    cpu: str | None = None,
    slow_hosts: Sequence[str] = (),
    slow_links: Sequence[str] = (),
) -> Lab:
    """The Lab that these words ask for: `200mbit`, `2ms`, `25%`, `3:50%` (of the others), `2:50mbit`."""
    if not 1 <= hosts <= MOST_HOSTS:
        raise UsageError(f"{hosts} hosts is not between 1 and {MOST_HOSTS}", hint="--hosts 4")
    rate = None if link is None else link_bits_per_s(link, flag="--link")
    cores = None if cpu is None else _share(cpu, flag="--cpu")
    slower = dict(_numbered(word, hosts, flag="--slow-host", example="3:50%") for word in slow_hosts)
    links = dict(_numbered(word, hosts, flag="--slow-link", example="2:50mbit") for word in slow_links)
    delay_s = duration(delay) if delay else 0.0
    if not 0.0 <= delay_s <= 1.0:
        raise UsageError(f"--delay {delay} is not between 0 and 1 s", hint="--delay 2ms")
    found = []
    for number in range(1, hosts + 1):
        own_rate, own_cores = rate, cores
        if number in links:
            own_rate = link_bits_per_s(links[number], flag="--slow-link")
        if number in slower:
            own_cores = (cores or 1.0) * _share(slower[number], flag="--slow-host")
        found.append(Host(number, f"{name}-h{number}", f"{_NETWORK}.{number}", own_rate, own_cores))
    return Lab(name, tuple(found), delay_s)


def link_bits_per_s(text: str, *, flag: str = "--link") -> float:
    """Bits per second from `200mbit`, `1gbit`, `64kbit/s`."""
    match = _RATE.fullmatch(text.strip())
    rate = float(match[1]) * _FACTOR[match[2].lower()] if match else 0.0
    if not 1e4 <= rate <= 1e12:
        raise UsageError(f"{flag} {text!r} is not a rate from 10kbit to 1000gbit", hint=f"{flag} 200mbit")
    return rate


def rate_words(bits_per_s: float | None) -> str:
    """200 Mbit/s, or `unshaped`."""
    if bits_per_s is None:
        return "unshaped"
    for factor, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if bits_per_s >= factor:
            return f"{bits_per_s / factor:g} {unit}"
    return f"{bits_per_s:g} bit/s"


def _share(text: str, *, flag: str) -> float:
    """Cores from `25%` or `0.25`."""
    word = text.strip()
    try:
        value = float(word.removesuffix("%")) / (100.0 if word.endswith("%") else 1.0)
    except ValueError:
        value = 0.0
    if not 0.01 <= value <= 1024:
        raise UsageError(f"{flag} {text!r} is not a share of a core of at least 1%", hint="--cpu 25%")
    return value


def _numbered(text: str, hosts: int, *, flag: str, example: str) -> tuple[int, str]:
    number, colon, value = text.partition(":")
    if not colon or not number.strip().isdigit() or not value:
        raise UsageError(f"{flag} {text!r} is not HOST:VALUE", hint=f"{flag} {example}")
    if not 1 <= int(number) <= hosts:
        raise UsageError(
            f"{flag} {text!r}: there are {hosts} hosts, numbered from 1", hint=f"{flag} {example}"
        )
    return int(number), value.strip()
