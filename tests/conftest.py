"""`make test` draws the same examples every time, so that it passes or fails for one reason: the code.

`make test-all` draws others each time (HYPOTHESIS_PROFILE=explore), to find what nobody thought of; a failure
found there becomes an @example.
"""

import os
import signal
import threading

import pytest
from hypothesis import settings

from paceline.launch.gate import Gate, Invitation
from tests.warm import free_port

# no deadline: on a loaded machine an example that takes long says nothing about the code
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# a shell starts what it puts in the background with Ctrl-C ignored, and children inherit that: tests interrupt theirs
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def gate():
    """Where nodes join, on this machine."""
    opened = Gate(Invitation(host="127.0.0.1"), lambda text: None)
    yield opened
    opened.close()


@pytest.fixture
def alone(monkeypatch):
    """One worker without torchrun: what torchrun would have told it."""
    told = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    for name, value in told.items():
        monkeypatch.setenv(name, value)
