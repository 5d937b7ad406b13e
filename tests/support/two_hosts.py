"""Two hosts on one machine for tests: network namespaces joined by a cable, the desk in one, a node in the other."""

import contextlib
import os
import re
import shutil
import subprocess
import time

import pytest

from tests.support.desk import PLAIN_DESK, environment

DESK_ADDRESS, NODE_ADDRESS = "10.79.0.1", "10.79.0.2"
SIX = ("fd79::1", "fd79::2")


@contextlib.contextmanager
def two_hosts(addresses=(DESK_ADDRESS, NODE_ADDRESS)):
    """Names of two namespaces that reach each other at 10.79.0.1 and 10.79.0.2, and nothing else."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("needs root and ip (iproute2) to make two hosts of one machine")
    family = "6" if ":" in addresses[0] else "4"
    names = [f"paceline-test-{os.getpid()}-{family}{end}" for end in "ab"]
    if subprocess.run(["ip", "netns", "add", names[0]], check=False, capture_output=True).returncode:
        pytest.skip("network namespaces cannot be made here")
    try:
        _ip("netns", "add", names[1])
        _ip(
            "link",
            "add",
            "eth0",
            "netns",
            names[0],
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            names[1],
        )
        for name, address in zip(names, addresses, strict=True):
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "link", "set", "eth0", "up")
            whole = ["/64", "nodad"] if family == "6" else ["/24"]
            _ip("-n", name, "addr", "add", f"{address}{whole[0]}", "dev", "eth0", *whole[1:])
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def started(host, *args, cwd, **variables):
    """Start `paceline ARGS` on a host of its own folder; output goes to files beside it."""
    name = args[0]
    with open(cwd / f"{name}.out", "wb") as out, open(cwd / f"{name}.err", "wb") as err:
        return subprocess.Popen(
            ["ip", "netns", "exec", host, *PLAIN_DESK, *map(str, args)],
            cwd=cwd,
            env={**environment(), **variables},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )


def join_line(folder, *, wait_s=60):
    """TOKEN@HOST:PORT, as soon as the desk in this folder has printed it."""
    found = until(lambda: re.search(r"paceline join (\S+)", said(folder, "study")), wait_s=wait_s)
    return found[1]


def said(folder, verb):
    """What a verb has written to its standard error so far."""
    return (folder / f"{verb}.err").read_text()


def until(ready, *, wait_s=120):
    """What `ready` returns once it is true; None when it never is."""
    end = time.monotonic() + wait_s
    while not (found := ready()) and time.monotonic() < end:
        time.sleep(0.1)
    return found


@contextlib.contextmanager
def dropped(host, ports):
    """Packets to these TCP ports of a host are dropped without a word, as a firewall does.

    A rule can forbid only what is looked up after it: the table of a host's own addresses comes later meanwhile.
    """
    rule = ("pref", "50", "iif", "eth0", "ipproto", "tcp", "dport", ports, "blackhole")
    _ip("-n", host, "rule", "add", "pref", "100", "table", "local")
    _ip("-n", host, "rule", "del", "pref", "0")
    _ip("-n", host, "rule", "add", *rule)
    try:
        yield
    finally:
        _ip("-n", host, "rule", "del", *rule)
        _ip("-n", host, "rule", "add", "pref", "0", "table", "local")
        _ip("-n", host, "rule", "del", "pref", "100")


def _ip(*args):
    subprocess.run(["ip", *args], check=True)
