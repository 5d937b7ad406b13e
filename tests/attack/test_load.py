"""`paceline serve` under load: slow connections and many listeners, and the page still comes."""

import contextlib
import re
import signal
import socket
import subprocess
import time
import urllib.request

import psutil
import pytest

from tests.attack.chance import tries
from tests.serve.test_serve import study_at
from tests.support.desk import DESK, environment

_ANSWER_S = 10.0


@pytest.fixture
def served(tmp_path):
    """A server over one study: its address, and its process."""
    study_at(tmp_path / "s")
    server = subprocess.Popen(
        [*DESK, "serve", str(tmp_path)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    said = "".join(server.stdout.readline() for _ in range(5))
    yield re.search(r"http://\S+", said)[0], psutil.Process(server.pid)
    server.send_signal(signal.SIGINT)
    server.communicate(timeout=30)


def answered(url):
    """How long an answer takes."""
    began = time.monotonic()
    with urllib.request.urlopen(url, timeout=60) as got:
        assert got.status == 200
        got.read()
    return time.monotonic() - began


@pytest.mark.alone
def test_slow_connections_and_many_listeners_keep_nobody_from_the_page(served, figures):
    url, process = served
    host, port, path = re.fullmatch(r"http://([\d.]+):(\d+)(/.*)", url).groups()
    answered(f"{url}list")
    before = process.memory_info().rss
    slow, listeners = tries(100, 600), tries(50, 500)
    with contextlib.ExitStack() as held:
        for i in range(slow + listeners):
            line = socket.create_connection((host, int(port)), timeout=30)
            held.callback(line.close)
            whole = f"GET {path}events HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
            line.sendall(whole if i >= slow else whole[: 5 + i % 20])
        took = max(answered(f"{url}{what}") for what in ("", "list", "report?study=s") for _ in range(3))
        grown = process.memory_info().rss - before
    assert took < _ANSWER_S
    assert grown < 500e6
    assert answered(f"{url}list") < _ANSWER_S
    figures(
        f"serve: {slow} slow connections and {listeners} event streams, "
        f"slowest answer {took:.2f} s, {grown / 1e6:.0f} MB more"
    )
