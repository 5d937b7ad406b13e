"""`make test` draws the same examples every time, so that it passes or fails for one reason: the code.

`make test-all` draws others each time (HYPOTHESIS_PROFILE=explore), to find what nobody thought of; a failure
found there becomes an @example.
"""

import os
import signal
import threading

import pytest
from hypothesis import settings

from paceline.launch.nodes.gate import Gate, Invitation
from tests.attack.chance import SEED
from tests.support.warm import free_port

# no deadline: on a loaded machine an example that takes long says nothing about the code
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
os.environ["ATTACK_SEED"] = str(SEED)  # workers of pytest-xdist draw from the same

os.environ.pop(
    "PYTHONUNBUFFERED", None
)  # images of containers set it, and it hides what a user's Python does at its end

# a shell starts what it puts in the background with Ctrl-C ignored, and children inherit that: tests interrupt theirs
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

# what starts many processes of its own, the longest first; the others take seconds
LONGEST = (
    "test_slurm",
    "test_faults",
    "test_kills",
    "test_accuracy_cli",
    "test_cli",
    "test_nodes",
    "test_agent_guest",
    "test_agent_scripts",
    "test_train_cli",
    "test_horovod_hosts",
    "test_horovod_migrate",
    "test_recipe",
    "test_workloads",
    "test_report_cmd",
    "test_report_any",
    "test_table",
)


def pytest_collection_modifyitems(items):
    """Files that take long come first: a long one that came last would run while the other core has nothing to do."""
    items.sort(key=lambda item: LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST))


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


@pytest.fixture
def figures(record_property):
    """What an attack came to, in a line: told at the end of the run."""
    return lambda line: record_property("figures", line)


def pytest_terminal_summary(terminalreporter):
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    told = [text for report in reports for name, text in report.user_properties if name == "figures"]
    if told:
        terminalreporter.section(f"figures (ATTACK_SEED={SEED})")
        for text in sorted(told):
            terminalreporter.write_line(text)
