"""The desk's side of a trial over nodes, against a node made of straw: no torch, no training, the real connection."""

import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from unittest.mock import Mock

import pytest

from paceline.launch.command import Command
from paceline.launch.nodes import launcher as nodes_module
from paceline.launch.nodes import trial as node_trial
from paceline.launch.nodes.gate import PROTOCOL
from paceline.launch.nodes.launcher import NodesLauncher
from paceline.launch.nodes.route import way_at
from paceline.launch.nodes.trial import NodeTrial, Order, remove_abandoned
from paceline.launch.nodes.wire import node_handshake
from paceline.plan.trials import plan_study
from paceline.records import Study, Workload

TRIAL = plan_study(Study(Workload("module", "t"), nodes=(2,), workers_per_node=(1,), workers=(2,))).trials[0]


@pytest.fixture
def node(gate):
    """A node that has joined: its end of the connection."""
    met = []

    def come():
        wire = node_handshake(socket.create_connection(("127.0.0.1", gate.port)), gate.token)
        wire.send("hello", protocol=PROTOCOL, host="straw", paceline="0")
        met.append(wire)

    thread = threading.Thread(target=come)
    thread.start()
    assert gate.admit(10.0).node == 1
    thread.join()
    assert met[0].receive(5.0).kind == "welcome"
    yield met[0]
    met[0].close()


@pytest.fixture
def start(gate, tmp_path):
    """Start a trial on so many nodes, whose part here is a few words of Python."""
    launches = []

    def started(words, nodes=2):
        (tmp_path / "agent").mkdir(exist_ok=True)
        argv = (sys.executable, "-c", words, "torch.distributed.run", "--nnodes", str(nodes))
        tag = f"test-{os.getpid()}:t"
        command = Command(argv, str(tmp_path), {"PACELINE_TAG": tag}, str(tmp_path), tag)
        launcher = NodesLauncher(gate, None, lambda text: None, lambda member: None)
        with open(tmp_path / "launcher.log", "wb") as output:
            launches.append(launcher.start(command, output))
        return launches[-1]

    yield started
    for launch in launches:
        launch.end()


def code(launch):
    """The exit code once there is one."""
    until = time.monotonic() + 20
    while (found := launch.exit_code()) is None and time.monotonic() < until:
        time.sleep(0.02)
    return found


def answer_the_end(node):
    """As a node does when told to end: what it has, then done."""

    def serve():
        while (message := node.receive(20.0)) is not None and message.kind != "end":
            pass
        node.send("file", b"late", trial="t", name="worker-1.jsonl", first=True)
        node.send("done", trial="t")

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_a_trial_is_over_when_it_is_on_every_node(node, start):
    launch = start("pass")
    order = node.receive(5.0)
    assert (order.kind, order.values["tag"].rpartition(":")[2]) == ("start", "t")
    assert launch._here._process.wait(timeout=20) == 0
    assert launch.exit_code() is None
    node.send("ended", trial="t", code=0)
    assert code(launch) == 0
    thread = answer_the_end(node)
    launch.end()
    thread.join()


def test_what_failed_anywhere_failed(node, start):
    launch = start("pass")
    node.send("ended", trial="t", code=3)
    assert code(launch) == 3
    answer_the_end(node)
    launch.end()


def test_a_node_that_cannot_start_the_trial_says_why(node, start, tmp_path):
    launch = start("pass")
    node.send("ended", trial="t", code=1, problem="[Errno 28] No space left on device")
    assert code(launch) == 1
    answer_the_end(node)
    launch.end()
    reason = json.loads((tmp_path / "lost-1.json").read_text())["reason"]
    assert reason == "node 1 (straw, 127.0.0.1) could not start the run: [Errno 28] No space left on device"


def test_files_of_a_node_are_fetched_at_the_end(node, start, tmp_path):
    launch = start("pass")
    thread = answer_the_end(node)
    launch.end()
    thread.join()
    assert (tmp_path / "worker-1.jsonl").read_bytes() == b"late"
    assert not list(tmp_path.glob("lost-*"))


def test_a_worker_is_asked_for_its_stacks_on_its_own_node(node, start):
    launch = start("import time; time.sleep(60)")
    assert node.receive(5.0).kind == "start"
    node.send("file", struct.pack("<QdQQ", 4, 1.0, 4711, 1), trial="t", name="heartbeat-1", first=True)
    assert launch.exit_code() is None
    time.sleep(0.1)
    assert launch.exit_code() is None
    assert launch.ask_stacks(4711)
    asked = node.receive(5.0)
    assert (asked.kind, asked.values) == ("stacks", {"pid": 4711})
    assert not launch.ask_stacks(1)  # no process of this trial has that number
    answer_the_end(node)
    launch.end()


def test_a_node_that_goes_away_ends_the_trial_and_is_named(node, start, tmp_path):
    launch = start("import time; time.sleep(60)")
    node.close()
    assert code(launch) == 1
    launch.end()
    lost = json.loads((tmp_path / "lost-1.json").read_text())
    assert lost["reason"] == "node 1 (straw, 127.0.0.1) was lost: the connection was closed"


def test_a_node_lost_before_its_trial_ends_it_at_once(gate, node, start, tmp_path):
    gate.present[0].lose("it left")
    assert start("import time; time.sleep(60)").exit_code() == 1


def test_nodes_without_a_part_are_kept_awake(gate, node, start, monkeypatch):
    monkeypatch.setattr(nodes_module, "_PING_S", 0.0)
    launch = start("import time; time.sleep(60)", nodes=1)
    assert launch.exit_code() is None
    assert node.receive(5.0).kind == "here"
    node.send("leaving")
    time.sleep(0.1)
    launch.exit_code()
    assert gate.present == []


def test_a_trial_that_needs_more_nodes_than_are_here_is_not_started(gate, node):
    launcher = NodesLauncher(gate, None, lambda text: None, lambda member: None)
    assert launcher.refusal(TRIAL) is None
    assert launcher.rendezvous(TRIAL).endpoint.startswith("127.0.0.1:")
    node.close()
    time.sleep(0.1)
    assert launcher.refusal(TRIAL) == "needs 2 nodes, 1 is here"


def test_a_trial_that_cannot_be_unpacked_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    full = OSError(28, "No space left on device")
    monkeypatch.setattr(node_trial, "unpacked", Mock(side_effect=full))
    order = Order("t", (sys.executable,), {"PACELINE_TRIAL": "{}"}, "/", "study:t", 1)
    with pytest.raises(OSError, match="No space left"):
        NodeTrial(order, b"", way=way_at("127.0.0.1"))
    assert list(tmp_path.iterdir()) == []


def test_scratch_folders_of_killed_joiners_are_removed_and_no_others(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True
    )
    names = [
        f"paceline-node-{gone.stdout.strip()}-x",
        f"paceline-node-{os.getpid()}-y",
        "paceline-node-mine",
        "z",
    ]
    for name in names:
        (tmp_path / name).mkdir()
    remove_abandoned()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[1:])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of somebody else")
def test_a_scratch_folder_of_somebody_else_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True
    )
    theirs = tmp_path / f"paceline-node-{gone.stdout.strip()}-x"
    theirs.mkdir()
    os.chown(theirs, 12345, 12345)
    remove_abandoned()
    assert theirs.exists()
