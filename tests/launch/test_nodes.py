"""A study on two hosts that share no folder: the node joins by hand, works, is lost, comes back."""

import json
import os
import shutil
import signal
import subprocess
from contextlib import contextmanager

import psutil
import pytest

from paceline.launch.processes import tagged
from paceline.measure.telemetry import use_of
from paceline.store.paths import StudyFolder
from paceline.store.trial_files import read_results
from tests.support.desk import SCRIPTS, SMALL
from tests.support.two_hosts import (
    DESK_ADDRESS,
    NODE_ADDRESS,
    SIX,
    dropped,
    join_line,
    said,
    started,
    two_hosts,
    until,
)

pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def hosts():
    with two_hosts() as names:
        yield names


def folders(base):
    """Where desk and node work: two folders that have nothing in common, each with its copy of the script."""
    for name in ("desk", "node", "node/scratch"):
        (base / name).mkdir()
    for name in ("desk", "node"):
        shutil.copy(SCRIPTS / "faults_train.py", base / name / "train.py")
    return base / "desk", base / "node"


def joined(host, node, line, **variables):
    asked = ("join", line, "--script", node)
    return started(host, *asked, cwd=node, TMPDIR=str(node / "scratch"), **variables)


@pytest.fixture(scope="module")
def study(hosts, tmp_path_factory):
    """Two nodes with two workers each, to the end."""
    desk, node = folders(tmp_path_factory.mktemp("two"))
    asked = ("--nodes", "2", "--workers-per-node", "2", *SMALL, "--steps", "150", "--out", "s", "train.py")
    first = started(hosts[0], "study", *asked, cwd=desk)
    try:
        second = joined(hosts[1], node, join_line(desk))
        try:
            assert first.wait(timeout=200) == 0, said(desk, "study")
            assert second.wait(timeout=20) == 0, said(node, "join")
        finally:
            second.kill()
            second.wait()
    finally:
        first.kill()
        first.wait()
    return desk, node


def test_workers_on_two_nodes_train_together(study):
    (result,) = read_results(StudyFolder(study[0] / "s"))
    assert (result.state, result.trial.id) == ("ok", "n2-w4-1")
    assert [worker.rank for worker in result.workers] == [0, 1, 2, 3]
    sums = {worker.manifest["weights_checksum"] for worker in result.workers}
    assert len(sums) == 1


def test_everything_that_a_node_wrote_is_with_the_desk_and_nothing_stays_there(study):
    desk, node = study
    trial = desk / "s" / "trials" / "n2-w4-1"
    for rank in range(4):
        assert {p.name for p in trial.glob(f"*-{rank}.*")} >= {
            f"worker-{rank}.jsonl", f"manifest-{rank}.json", f"out-{rank}.log"
        }  # fmt: skip
    assert list((node / "scratch").glob("paceline-*")) == []


def test_the_interface_is_chosen_by_route_and_said_aloud(study):
    desk, node = study
    assert f"communicates over {NODE_ADDRESS} on eth0, by route" in said(desk, "study")
    assert f"at {NODE_ADDRESS} over eth0" in said(node, "join")
    (result,) = read_results(StudyFolder(desk / "s"))
    for worker in result.workers:
        assert worker.manifest["environment"]["GLOO_SOCKET_IFNAME"] == "eth0"


def test_workers_of_both_nodes_are_sampled_from_outside(study):
    (result,) = read_results(StudyFolder(study[0] / "s"))
    assert {(sample.node, sample.rank) for sample in result.telemetry} == {(0, 0), (0, 1), (1, 2), (1, 3)}
    assert all(sample.rss_bytes > 1e7 and sample.cpu_s > 0 for sample in result.telemetry)


def test_what_is_seen_from_outside_is_what_workers_see_of_themselves(study):
    (result,) = read_results(StudyFolder(study[0] / "s"))
    seen = use_of(result, warmup=2, steps=150)
    windows = [worker.manifest["window"] for worker in result.workers]
    own = [window["own_cpu_s"] / window["wall_s"] for window in windows]
    cores = result.telemetry[0].node_cores
    assert seen.cpu_ratio == pytest.approx(max(own[0] + own[1], own[2] + own[3]) / cores, rel=0.3)


def test_a_look_at_the_nodes_is_kept_with_the_study(study):
    desk, _ = study
    seen = json.loads((desk / "s" / "preflight.json").read_text())
    assert [facts["node"] for facts in seen["nodes"]] == [0, 1]
    assert seen["nodes"][0]["torch"] == seen["nodes"][1]["torch"] is not None
    assert seen["nodes"][0]["script_sha256"] == seen["nodes"][1]["script_sha256"] is not None
    assert abs(seen["nodes"][1]["skew_s"]) < 1
    found = [finding["id"] for finding in json.loads((desk / "s" / "analysis.json").read_text())["findings"]]
    assert "one-machine" in found


def test_a_node_killed_in_a_trial_is_named_and_what_needs_it_is_left_out(hosts, tmp_path):
    desk, node = folders(tmp_path)
    asked = ("--nodes", "2", *SMALL, "--repeats", "2", "--out", "s", "train.py")
    first = started(hosts[0], "study", *asked, "--", "--fault", "hang", "--at", "6", cwd=desk)
    try:
        second = joined(hosts[1], node, join_line(desk))
        beat = desk / "s" / "trials" / "n2-w2-1" / "heartbeat-1"
        assert until(lambda: beat.exists() and beat.read_bytes()[0] >= 5), said(desk, "study")
        second.kill()
        assert first.wait(timeout=200) == 2, said(desk, "study")
    finally:
        first.kill()
        first.wait()
        second.wait()
    (result,) = read_results(StudyFolder(desk / "s"))
    assert result.state == "crashed"
    assert result.reason.startswith("node 1 (")
    assert result.reason.endswith("was lost: the connection was closed")
    assert "before run n2-w2-2, which needs 2 nodes, 1 is here; 1 run left out" in said(desk, "study")
    assert until(lambda: not tagged(StudyFolder(desk / "s").tag), wait_s=10), "a process outlived its node"


def test_a_node_that_differs_is_refused_before_the_first_trial(hosts, tmp_path):
    desk, node = folders(tmp_path)
    (node / "train.py").write_text("import torch\n")
    first = started(hosts[0], "study", "--nodes", "2", *SMALL, "--out", "s", "train.py", cwd=desk)
    try:
        line = join_line(desk)
        stranger = started(hosts[1], "join", f"wrong{line}", cwd=node)
        assert stranger.wait(timeout=60) == 1
        assert "does not take this token" in said(node, "join")
        second = joined(hosts[1], node, line)
        assert first.wait(timeout=100) == 1
        assert second.wait(timeout=20) == 0
    finally:
        first.kill()
        first.wait()
    assert "knocked with another token: turned away" in said(desk, "study")
    assert "nothing was started: the script is not the same on every node" in said(desk, "study")
    assert not list((desk / "s").glob("trials/*"))


@pytest.mark.slow
def test_a_firewall_is_named_before_torch_waits_for_ever(hosts, tmp_path):
    """Only the port of the gate is open."""
    desk, node = folders(tmp_path)
    with dropped(hosts[0], "29561-65534"):
        first = started(hosts[0], "study", "--nodes", "2", *SMALL, "--out", "s", "train.py", cwd=desk)
        second = joined(hosts[1], node, join_line(desk))
        assert first.wait(timeout=60) == 1
        assert second.wait(timeout=20) == 0
    assert "node 1" in said(desk, "study")
    assert "cannot reach a port that node 0" in said(desk, "study")
    assert "try: let the nodes talk to each other on all ports" in said(desk, "study")
    assert "nothing was started: " in said(node, "join")
    assert not list((desk / "s").glob("trials/*"))


@pytest.mark.slow
def test_hosts_that_have_ipv6_alone_train_together(tmp_path):
    desk, node = folders(tmp_path)
    with two_hosts(SIX) as names:
        first = started(
            names[0], "study", "--nodes", "2", *SMALL, "--steps", "30", "--out", "s", "train.py", cwd=desk
        )
        line = join_line(desk)
        assert line.partition("@")[2].startswith("[fd79::1]:")
        second = joined(names[1], node, line)
        assert first.wait(timeout=200) == 0, said(desk, "study")
        assert second.wait(timeout=20) == 0
    (result,) = read_results(StudyFolder(desk / "s"))
    assert (result.state, len(result.workers)) == ("ok", 2)
    assert "communicates over fd79::2 on eth0, by route" in said(desk, "study")


@pytest.mark.slow
def test_a_module_is_compared_between_nodes_and_trains(hosts, tmp_path):
    """The node has another net.py in the package: a doubt, for the module may not import it."""
    desk, node = folders(tmp_path)
    for folder, net in ((desk, "x = 1\n"), (node, "x = 2\n")):
        (folder / "pkg").mkdir()
        (folder / "train.py").rename(folder / "pkg" / "train.py")
        (folder / "pkg" / "__init__.py").write_text("")
        (folder / "pkg" / "net.py").write_text(net)
    first = started(
        hosts[0], "study", "--nodes", "2", *SMALL, "--steps", "30", "--out", "s", "-m", "pkg.train", cwd=desk
    )
    second = joined(hosts[1], node, join_line(desk))
    assert first.wait(timeout=200) == 0, said(desk, "study")
    assert second.wait(timeout=20) == 0
    assert "1 Python files beside the module are not those of the desk" in said(desk, "study")
    (result,) = read_results(StudyFolder(desk / "s"))
    assert (result.state, len(result.workers)) == ("ok", 2)


@pytest.mark.slow
def test_the_interface_is_that_of_the_route_among_three(hosts, tmp_path):
    """Two more interfaces on the desk, first in the alphabet, lead nowhere; one has no route at all."""
    desk, node = folders(tmp_path)
    for name, address in (("aaa0", "172.29.0.1/16"), ("bbb0", None)):
        run = ["ip", "-n", hosts[0], "link"]
        subprocess.run([*run, "add", name, "type", "veth", "peer", "name", f"{name}p"], check=True)
        subprocess.run([*run, "set", name, "up"], check=True)
        if address is not None:
            subprocess.run(["ip", "-n", hosts[0], "addr", "add", address, "dev", name], check=True)
    try:
        asked = ("--nodes", "2", *SMALL, "--steps", "30", "--out", "s", "train.py")
        first = started(hosts[0], "study", *asked, cwd=desk)
        token = join_line(desk).partition("@")[0]
        port = join_line(desk).rpartition(":")[2]
        second = joined(hosts[1], node, f"{token}@{DESK_ADDRESS}:{port}")
        assert first.wait(timeout=200) == 0, said(desk, "study")
        assert second.wait(timeout=20) == 0
    finally:
        for name in ("aaa0", "bbb0"):
            subprocess.run(["ip", "-n", hosts[0], "link", "del", name], check=True)
    assert f"communicates over {DESK_ADDRESS} on eth0, by route" in said(desk, "study")
    (result,) = read_results(StudyFolder(desk / "s"))
    assert {w.manifest["environment"]["GLOO_SOCKET_IFNAME"] for w in result.workers} == {"eth0"}


@pytest.mark.slow
def test_a_hang_on_a_joined_node_is_found_and_shown(hosts, tmp_path):
    desk, node = folders(tmp_path)
    asked = ("--nodes", "2", *SMALL, "--hang", "8", "--out", "s", "train.py", "--", "--fault", "hang")
    first = started(hosts[0], "study", *asked, cwd=desk)
    second = joined(hosts[1], node, join_line(desk))
    assert first.wait(timeout=200) == 2
    assert second.wait(timeout=20) == 0
    (result,) = read_results(StudyFolder(desk / "s"))
    assert result.state == "hung"
    assert "worker 1 of 2 is behind after 3 steps, standing in train.py:" in result.reason


@pytest.mark.slow
def test_a_node_may_leave_and_come_back(hosts, tmp_path):
    desk, node = folders(tmp_path)
    asked = ("--nodes", "1,2", *SMALL, "--repeats", "2", "--tight", "0", "--out", "s", "train.py")
    first = started(hosts[0], "study", *asked, cwd=desk)
    line = join_line(desk)
    second = joined(hosts[1], node, line)
    beat = desk / "s" / "trials" / "n2-w2-1" / "heartbeat-1"
    assert until(beat.exists)
    second.send_signal(signal.SIGTERM)
    assert second.wait(timeout=20) == 130
    third = joined(hosts[1], node, line)
    assert first.wait(timeout=200) == 0
    assert third.wait(timeout=20) == 0
    states = {result.trial.id: result.state for result in read_results(StudyFolder(desk / "s"))}
    assert states == {"n1-w1-1": "ok", "n2-w2-1": "crashed", "n2-w2-2": "ok", "n1-w1-2": "ok"}


@pytest.mark.slow
def test_a_desk_that_is_killed_leaves_no_process_on_a_node(hosts, tmp_path):
    desk, node = folders(tmp_path)
    asked = ("--nodes", "2", *SMALL, "--out", "s", "train.py", "--", "--fault", "hang")
    first = started(hosts[0], "study", *asked, cwd=desk)
    second = joined(hosts[1], node, join_line(desk))
    beat = desk / "s" / "trials" / "n2-w2-1" / "heartbeat-1"
    assert until(beat.exists)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert second.wait(timeout=30) == 1
    assert "is lost" in said(node, "join")
    assert until(lambda: not tagged(StudyFolder(desk / "s").tag), wait_s=10)
    assert list((node / "scratch").glob("paceline-*")) == []


@contextmanager
def under_way(hosts, desk, node):
    """A long trial on both nodes that has begun to step: the desk, and the node that joined."""
    asked = ("--nodes", "2", *SMALL, "--steps", "2000", "--out", "s", "train.py")
    first = started(hosts[0], "study", *asked, cwd=desk)
    second = joined(hosts[1], node, join_line(desk))
    try:
        beat = desk / "s" / "trials" / "n2-w2-1" / "heartbeat-1"
        assert until(lambda: beat.exists() and beat.read_bytes()[0] > 5), said(desk, "study")
        yield first, second
    finally:
        for process in (first, second):
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_cut_cable_ends_the_trial_and_nothing_hangs(hosts, tmp_path):
    desk, node = folders(tmp_path)
    with under_way(hosts, desk, node) as (first, _):
        subprocess.run(["ip", "-n", hosts[1], "link", "set", "eth0", "down"], check=True)
        try:
            assert first.wait(timeout=100) == 2
        finally:
            subprocess.run(["ip", "-n", hosts[1], "link", "set", "eth0", "up"], check=True)
    (result,) = read_results(StudyFolder(desk / "s"))
    assert result.state == "crashed"
    assert "was lost: nothing heard from it for 30 s" in result.reason


@pytest.mark.slow
def test_a_node_whose_launcher_is_killed_is_named(hosts, tmp_path):
    desk, node = folders(tmp_path)
    with under_way(hosts, desk, node) as (first, second):
        (launcher,) = [
            process
            for process in psutil.Process(second.pid).children(recursive=True)
            if "torch.distributed.run" in process.cmdline()
        ]
        launcher.kill()
        assert first.wait(timeout=100) == 2, said(desk, "study")
    (result,) = read_results(StudyFolder(desk / "s"))
    assert result.state == "crashed"
    assert result.reason.startswith("node 1 (")
    assert result.reason.endswith("had its launcher killed by SIGKILL")
