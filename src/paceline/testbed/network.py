"""Hosts, links and the switch between them, in the kernel.

host eth0 ── veth ── pI, a port of br0 in the switch's own namespace          the root namespace is not touched
rate      token bucket (tbf) on what a host sends; where the kernel has no tbf, htb. A link slower than the others has
          one at the switch's port too, for what comes from faster ones
delay     netem at the switch's ports; where the kernel has no netem, hosts hang on a userspace switch (switch.py)
cut       the switch's port goes down: the host sees no carrier
lose      the port stays up and leaves the bridge: the host sees a carrier, and no frame arrives
"""

from __future__ import annotations

import os
import subprocess
import sys

from paceline.core.errors import PacelineError
from paceline.testbed.blueprint import Host, Lab
from paceline.testbed.system import ask, do

__all__ = ["build", "cut", "heal", "lose", "port", "remove", "shape", "uses_userspace_switch"]

# what passes an idle link at once: little, or short messages would not feel the rate. Hosts hand their link pieces of
# this size, a millisecond's worth: larger ones the kernel would have to cut, smaller ones wake receivers too often
_PIECE_S = 0.001
_LEAST_PIECE_BYTES, _MOST_PIECE_BYTES = 16_384, 65_536
_FRAME_BYTES = 1_514
_TICK_S = 0.0002  # of traffic, or the kernel could not keep up with a fast link
_UNSHAPED = 1e15
_QUEUE_BYTES = 64_000_000  # a host does not drop what it sends itself
# of one connection wait in its host's link: two pieces, as a network card's queue limit has it. With 128 KB gloo's
# small messages that announce data stood behind data, and 4 hosts at 60 Mbit/s took 5% longer than a ring (measured)
_OWN_QUEUE_BYTES = 32_768
# nothing is lost on these links, so reno never slows down, and every namespace may have it. BBR, the default of some
# kernels, leaves its link idle every ten seconds to see how short the way is: where links are always busy, the hosts of
# a ring did so one after the other, and a third of the steps took 4 to 8% longer (measured, 4 hosts at 60 Mbit/s)
_CONGESTION = "reno"
_BUFFERS = "4096 4194304 8388608"  # connections begin with the buffers that they would grow to


def build(lab: Lab) -> None:
    """Make the namespaces, the links and their shapes. Whoever calls removes them, also after an error."""
    for name in (lab.switch, *(host.namespace for host in lab.hosts)):
        do("ip", "netns", "add", name)
        do("ip", "-n", name, "link", "set", "lo", "up")
    slow = lab.delay_s > 0 and not _has_netem(lab)
    if slow:
        _start_userspace_switch(lab)
    else:
        do("ip", "-n", lab.switch, "link", "add", "br0", "type", "bridge")
        do("ip", "-n", lab.switch, "link", "set", "br0", "up")
    for host in lab.hosts:
        if not slow:
            _plug(lab, host)
        do("ip", "-n", host.namespace, "addr", "add", f"{host.address}/24", "dev", "eth0")
        do("ip", "-n", host.namespace, "link", "set", "eth0", "up")
        _set(host, "net/ipv4/tcp_limit_output_bytes", str(_OWN_QUEUE_BYTES))
        _set(host, "net/ipv4/tcp_slow_start_after_idle", "0")  # computing is no reason to lose the pace
        _set(host, "net/ipv4/tcp_congestion_control", _CONGESTION)
        for direction in ("tcp_rmem", "tcp_wmem"):
            _set(host, f"net/ipv4/{direction}", _BUFFERS)
        shape(lab, host, host.bits_per_s)


def shape(lab: Lab, host: Host, bits_per_s: float | None) -> None:
    """Give a host's link another rate, at once."""
    _rate(host.namespace, "eth0", bits_per_s)
    if uses_userspace_switch(lab):
        return
    if lab.delay_s > 0:
        delay = f"{round(lab.delay_s * 1e6)}us"
        do("tc", "-n", lab.switch, "qdisc", "replace", "dev", port(host), "root", "netem", "delay", delay)
    else:
        fastest = max(other.bits_per_s or _UNSHAPED for other in lab.hosts)
        _rate(lab.switch, port(host), bits_per_s if (bits_per_s or _UNSHAPED) < fastest else None)


def cut(lab: Lab, host: Host) -> None:
    """Pull the host's cable."""
    if uses_userspace_switch(lab):
        raise PacelineError(
            "a link with a delay in a userspace switch cannot be cut", hint="leave out --delay"
        )
    do("ip", "-n", lab.switch, "link", "set", port(host), "down")


def lose(lab: Lab, host: Host) -> None:
    """Drop every frame of the host's link, and say so to nobody."""
    if uses_userspace_switch(lab):
        raise PacelineError(
            "a link with a delay in a userspace switch cannot lose frames", hint="leave out --delay"
        )
    do("ip", "-n", lab.switch, "link", "set", port(host), "nomaster")


def heal(lab: Lab, host: Host) -> None:
    """Undo cut and lose."""
    do("ip", "-n", lab.switch, "link", "set", port(host), "master", "br0", "up")


def remove(namespaces: list[str]) -> None:
    """Delete namespaces; the interfaces in them go too."""
    for name in namespaces:
        ask("ip", "netns", "del", name)


def port(host: Host) -> str:
    """The host's port on the switch."""
    return f"p{host.number}"


def uses_userspace_switch(lab: Lab) -> bool:
    """Whether this lab's hosts hang on the userspace switch: there is no bridge."""
    return lab.delay_s > 0 and ask("ip", "-n", lab.switch, "link", "show", "br0").returncode != 0


def _set(host: Host, name: str, value: str) -> None:
    """A setting of the host's own network, where its kernel has it."""
    words = f"echo {value} > /proc/sys/{name}"
    ask("nsenter", f"--net=/run/netns/{host.namespace}", "sh", "-c", words)


def _plug(lab: Lab, host: Host) -> None:
    ends = ("eth0", "netns", host.namespace, "type", "veth", "peer", "name", port(host), "netns", lab.switch)
    do("ip", "link", "add", *ends)
    do("ip", "-n", lab.switch, "link", "set", port(host), "master", "br0", "up")


def _rate(namespace: str, interface: str, bits_per_s: float | None) -> None:
    where = ("tc", "-n", namespace, "qdisc")
    if bits_per_s is None:
        ask(*where, "del", "dev", interface, "root")
        return
    piece = min(_MOST_PIECE_BYTES, max(_LEAST_PIECE_BYTES, round(bits_per_s / 8 * _PIECE_S)))
    ask("ip", "-n", namespace, "link", "set", interface, "gso_max_size", str(piece))
    burst = max(piece + _FRAME_BYTES, round(bits_per_s / 8 * _TICK_S))
    bucket = ("tbf", "rate", f"{round(bits_per_s)}bit", "burst", str(burst), "limit", str(_QUEUE_BYTES))
    if ask(*where, "replace", "dev", interface, "root", *bucket).returncode == 0:
        return
    do(*where, "replace", "dev", interface, "root", "handle", "1:", "htb", "default", "1")
    rate = ("rate", f"{round(bits_per_s)}bit", "burst", str(burst))
    do(
        "tc",
        "-n",
        namespace,
        "class",
        "replace",
        "dev",
        interface,
        "parent",
        "1:",
        "classid",
        "1:1",
        "htb",
        *rate,
    )


def _has_netem(lab: Lab) -> bool:
    tried = ask("tc", "-n", lab.switch, "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms")
    if tried.returncode == 0:
        do("tc", "-n", lab.switch, "qdisc", "del", "dev", "lo", "root")
    return tried.returncode == 0


def _start_userspace_switch(lab: Lab) -> None:
    """Start switch.py, tagged with the lab's name, and wait until it holds an interface in every host."""
    words = [f"{lab.delay_s!r}", *(host.namespace for host in lab.hosts)]
    done = subprocess.run(
        [sys.executable, "-m", "paceline.testbed.switch", *words],
        env={**os.environ, "PACELINE_TAG": f"{lab.name}:switch"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise PacelineError(
            f"the userspace switch did not start: {said[-1] if said else 'no reason given'}",
            hint="it needs /dev/net/tun; leave out --delay to do without",
        )
