"""Who connects to rank 0 without its secret is sent away, and cannot fill its memory."""

import contextlib
import socket

import pytest

from paceline_horovod.common.lines import Listener


@pytest.fixture
def listener():
    opened = Listener(1, host="127.0.0.1", secret="known", warn_s=0.0, fail_s=0.0)
    yield opened
    opened.close()


@pytest.mark.parametrize("said", [b"guessed 0\n", b"known\n", b"known -1\n", b"\xff\n", b"x" * 4096])
def test_a_stranger_is_sent_away(listener, said):
    with socket.create_connection(("127.0.0.1", listener.port), timeout=10) as stranger:
        stranger.sendall(said)
        with contextlib.suppress(ConnectionResetError):  # sent away before all was read
            assert stranger.recv(1) == b""
