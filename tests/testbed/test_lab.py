"""The laboratory: what is asked becomes hosts, links keep their rate, and nothing is left behind, whoever is killed."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from paceline.core.errors import PacelineError, UsageError
from paceline.launch.cgroup import root_group
from paceline.launch.command import Command
from paceline.launch.processes import tagged
from paceline.plan.trials import plan_study
from paceline.records import Study, Workload
from paceline.testbed import network, owner, quota, system
from paceline.testbed.blueprint import Host, lab_of, link_bits_per_s, rate_words
from paceline.testbed.launcher import LabLaunch, inside, rendezvous_in
from paceline.testbed.means import means
from paceline.testbed.network import shape, uses_userspace_switch
from paceline.testbed.owner import end_lab, new_name, opened, sweep
from tests.support.desk import desk


def why_not():
    """Why this machine has no laboratory; empty where it has one."""
    if os.geteuid() != 0:
        return "needs root"
    if any(shutil.which(name) is None for name in ("ip", "tc", "nsenter")):
        return "needs ip, tc and nsenter"
    tried = subprocess.run(["ip", "netns", "add", "paceline-lab-try"], capture_output=True, check=False)
    if tried.returncode:
        return "needs network namespaces"
    subprocess.run(["ip", "netns", "del", "paceline-lab-try"], check=True)
    return ""


REASON = why_not()
needs_lab = pytest.mark.skipif(bool(REASON), reason=f"the laboratory {REASON}")

SEND = """
import socket, sys, time
role, address, size, burst = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
if role == "receive":
    server = socket.create_server((address, 5001))
    print("ready", flush=True)
    peer, _ = server.accept()
    got = 0
    while got < size:
        got += len(peer.recv(65536))
    peer.sendall(b"k")
else:
    peer = socket.create_connection((address, 5001))
    began = time.monotonic()
    peer.sendall(bytes(size))
    peer.recv(1)
    print(time.monotonic() - began)
"""


def seconds_to_send(sender, receiver, size):
    """How long it takes to bring so many bytes from one host to another, and a word back."""

    def python(host, role):
        command = Command(
            (sys.executable, "-c", SEND, role, receiver.address, str(size), "0"), "/", {}, "/", "t"
        )
        return subprocess.Popen(inside(host, command).argv, stdout=subprocess.PIPE, text=True)

    with python(receiver, "receive") as listening:
        assert listening.stdout.readline() == "ready\n"
        with python(sender, "send") as sending:
            return float(sending.stdout.read())


# ---------------------------------------------------------------- what is asked


def test_one_host_may_be_slower_and_one_link_too():
    lab = lab_of(
        "x", hosts=3, link="200mbit", cpu="40%", slow_hosts=["3:50%"], slow_links=["2:50mbit"], delay="2ms"
    )
    assert [host.bits_per_s for host in lab.hosts] == [200e6, 50e6, 200e6]
    assert [host.cores for host in lab.hosts] == [0.4, 0.4, 0.2]
    assert (lab.delay_s, lab.hosts[1].address, lab.hosts[1].namespace) == (0.002, "10.77.0.2", "x-h2")


def test_a_slow_host_has_a_share_of_one_core_where_the_others_have_no_limit():
    assert [host.cores for host in lab_of("x", hosts=2, slow_hosts=["2:25%"]).hosts] == [None, 0.25]


@pytest.mark.parametrize(
    ("text", "rate"), [("200mbit", 2e8), ("1gbit", 1e9), ("1.5Gbit/s", 1.5e9), ("64kbit", 64e3)]
)
def test_a_rate_is_read_in_bits(text, rate):
    assert link_bits_per_s(text) == rate


@pytest.mark.parametrize("bad", [{"link": "fast"}, {"link": "200MB"}, {"link": "0mbit"}, {"cpu": "lots"}, {"cpu": "0%"},
                                 {"slow_hosts": ["3"]}, {"slow_hosts": ["9:50%"]}, {"slow_links": ["2:fast"]},
                                 {"delay": "2h"}, {"hosts": 0}, {"hosts": 65}])  # fmt: skip
def test_what_cannot_be_built_is_refused_with_something_to_try(bad):
    with pytest.raises(UsageError) as refused:
        lab_of("x", **{"hosts": 4, **bad})
    assert refused.value.hint


def test_rates_are_said_as_people_say_them():
    assert [rate_words(r) for r in (None, 2e8, 1e9, 64e3)] == [
        "unshaped",
        "200 Mbit/s",
        "1 Gbit/s",
        "64 kbit/s",
    ]


def test_without_root_the_refusal_says_why(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(PacelineError, match="needs root"):
        system.require_root()


# ---------------------------------------------------------------- CPU quotas


def mounts(folder, *lines):
    file = folder / "mounts"
    file.write_text("".join(line + "\n" for line in lines))
    return file


def test_the_quota_lives_in_version_1_where_its_cpu_hierarchy_is_mounted(tmp_path):
    file = mounts(
        tmp_path, f"cgroup2 {tmp_path} cgroup2 rw 0 0", "cgroup /c/cpu cgroup rw,relatime,cpu,cpuacct 0 0"
    )
    assert root_group(file) == (Path("/c/cpu"), 1)


def test_else_in_version_2_if_it_has_the_cpu_controller(tmp_path):
    file = mounts(tmp_path, f"cgroup2 {tmp_path} cgroup2 rw,relatime 0 0")
    assert root_group(file) is None
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io\n")
    assert root_group(file) == (tmp_path, 2)


@pytest.mark.parametrize(
    ("cores", "written"),
    [(0.25, "1325 5300"), (2, "10600 5300"), (0.1, "1000 10000"), (0.0001, "1000 1000000")],
)
def test_a_period_is_as_short_as_the_least_quota_of_the_kernel_allows(tmp_path, monkeypatch, cores, written):
    monkeypatch.setattr(quota, "root_group", lambda: (tmp_path, 2))
    (tmp_path / "cgroup.subtree_control").write_text("cpu")
    quota.limit(Host(1, "lab-h1", "10.77.0.1", cores=cores))
    assert (tmp_path / "lab-h1" / "cpu.max").read_text() == written


@pytest.mark.parametrize(("before", "after"), [("memory pids", "+cpu"), ("cpu pids", "cpu pids")])
def test_version_2_gets_its_quota_in_cpu_max(tmp_path, monkeypatch, before, after):
    """The kernel adds what it is told; asked for what it hands down already, it may refuse."""
    monkeypatch.setattr(quota, "root_group", lambda: (tmp_path, 2))
    (tmp_path / "cgroup.subtree_control").write_text(before)
    host = Host(1, "lab-h1", "10.77.0.1", cores=0.25)
    quota.limit(host)
    assert (tmp_path / "cgroup.subtree_control").read_text() == after
    assert (tmp_path / "lab-h1" / "cpu.max").read_text() == "1325 5300"
    assert quota.join_file(host) == tmp_path / "lab-h1" / "cgroup.procs"


def test_a_host_without_a_share_has_no_group(tmp_path, monkeypatch):
    monkeypatch.setattr(quota, "root_group", lambda: (tmp_path, 1))
    quota.limit(Host(1, "lab-h1", "10.77.0.1"))
    assert list(tmp_path.iterdir()) == []


def test_a_machine_without_quotas_says_so(monkeypatch):
    monkeypatch.setattr(quota, "root_group", lambda: None)
    with pytest.raises(PacelineError, match="no cgroup"):
        quota.limit(Host(1, "lab-h1", "10.77.0.1", cores=0.5))


# ---------------------------------------------------------------- kernels that differ


class Kernel:
    """Takes down every command, and refuses those that name something it lacks."""

    def __init__(self, monkeypatch, *lacks):
        self.said, self.lacks = [], lacks
        for name in ("ask", "do"):
            monkeypatch.setattr(network, name, getattr(self, name))
        monkeypatch.setattr(
            network, "_start_userspace_switch", lambda lab: self.said.append("userspace switch")
        )

    def ask(self, *command):
        self.said.append(" ".join(command))
        bridge = any("br0 type bridge" in words for words in self.said)
        refused = any(word in command for word in self.lacks) or (
            command[-2:] == ("show", "br0") and not bridge
        )
        return subprocess.CompletedProcess(command, int(refused), "", "")

    def do(self, *command):
        assert self.ask(*command).returncode == 0, command
        return ""

    def commands(self, *words):
        return [said for said in self.said if all(word in said.split() for word in words)]


def test_where_the_kernel_has_netem_the_switchs_ports_delay_and_hosts_keep_their_rate(monkeypatch):
    kernel = Kernel(monkeypatch)
    network.build(lab_of("x", hosts=2, link="80mbit", delay="2ms"))
    assert "userspace switch" not in kernel.said
    assert [c for c in kernel.commands("netem") if "delay 2000us" in c] == [
        f"tc -n x-sw qdisc replace dev p{n} root netem delay 2000us" for n in (1, 2)
    ]
    assert [c.split(" dev ")[0] for c in kernel.commands("tbf")] == [
        f"tc -n x-h{n} qdisc replace" for n in (1, 2)
    ]


def test_where_it_has_none_hosts_hang_on_the_userspace_switch(monkeypatch):
    kernel = Kernel(monkeypatch, "netem")
    network.build(lab_of("x", hosts=2, link="80mbit", delay="2ms"))
    assert "userspace switch" in kernel.said
    assert not kernel.commands("bridge")
    assert len(kernel.commands("tbf")) == 2


def test_where_it_has_no_token_bucket_a_class_of_htb_keeps_the_rate(monkeypatch):
    kernel = Kernel(monkeypatch, "tbf")
    network.build(lab_of("x", hosts=1, link="80mbit"))
    (root,), (rate,) = kernel.commands("htb", "default"), kernel.commands("class")
    assert root == "tc -n x-h1 qdisc replace dev eth0 root handle 1: htb default 1"
    assert rate.startswith(
        "tc -n x-h1 class replace dev eth0 parent 1: classid 1:1 htb rate 80000000bit burst "
    )


def test_a_slower_link_is_shaped_on_its_way_in_too(monkeypatch):
    kernel = Kernel(monkeypatch)
    network.build(lab_of("x", hosts=3, link="80mbit", slow_links=["2:10mbit"]))
    assert [c.split(" burst")[0] for c in kernel.commands("x-sw", "tbf")] == [
        "tc -n x-sw qdisc replace dev p2 root tbf rate 10000000bit"
    ]


def test_hosts_send_at_the_links_pace_whatever_this_machine_prefers(monkeypatch):
    """BBR would leave its link idle for a moment every ten seconds."""
    kernel = Kernel(monkeypatch)
    network.build(lab_of("x", hosts=1))
    assert any("echo reno > /proc/sys/net/ipv4/tcp_congestion_control" in said for said in kernel.said)


# ---------------------------------------------------------------- one launch on several hosts


class Part:
    """A host's launcher that has ended with this code, or has not."""

    def __init__(self, code):
        self.code = code

    def exit_code(self):
        return self.code

    def end(self):
        return None


@pytest.mark.parametrize(
    ("codes", "code"), [((None, None), None), ((0, None), None), ((0, 0), 0), ((0, 3), 3), ((-9, 1), -9)]
)
def test_a_launch_ends_when_its_hosts_have_ended_and_fails_with_any(tmp_path, codes, code):
    with open(tmp_path / "log", "wb") as log:
        hosts = lab_of("x", hosts=2).hosts
        assert LabLaunch(list(zip(hosts, map(Part, codes), strict=True)), log).exit_code() == code


def test_a_host_that_failed_is_named_once_and_the_others_get_time_to_notice(tmp_path):
    with open(tmp_path / "log", "wb") as log:
        hosts = lab_of("x", hosts=2).hosts
        launch = LabLaunch(list(zip(hosts, (Part(None), Part(-9)), strict=True)), log)
        assert [launch.exit_code(), launch.exit_code()] == [None, None]
        launch.end()
        launch.end()
    assert (tmp_path / "log").read_text() == "host 2 of 2: its launcher was killed by SIGKILL\n"


def test_two_trials_never_meet_at_the_same_place():
    study = Study(Workload("script", "train.py"), workers=(), nodes=(2,), repeats=2)
    meet = rendezvous_in(lab_of("x", hosts=2))
    first, second = (meet(trial) for trial in plan_study(study).trials)
    assert first.endpoint.startswith("10.77.0.1:")
    assert first.endpoint != second.endpoint
    assert first.id != second.id


# ---------------------------------------------------------------- real namespaces


@pytest.fixture(scope="module")
def slow_pair():
    """Two hosts at 20 Mbit/s, the second on a quarter of a core."""
    sweep()
    with opened(lab_of(new_name(), hosts=2, link="20mbit", slow_hosts=["2:25%"])) as lab:
        yield lab


@needs_lab
@pytest.mark.root
@pytest.mark.alone
def test_a_link_carries_what_it_is_shaped_to(slow_pair):
    one, two = slow_pair.hosts
    assert seconds_to_send(one, two, 500_000) > 0.9 * 0.2  # 4 Mbit at 20 Mbit/s
    shape(slow_pair, one, 5e6)
    assert seconds_to_send(one, two, 500_000) > 0.9 * 0.8
    shape(slow_pair, one, 20e6)


@needs_lab
@pytest.mark.root
@pytest.mark.alone
def test_a_lab_says_what_it_is_made_with(slow_pair):
    one = slow_pair.hosts[0]
    assert means(slow_pair)["rate"] in ("tbf", "htb")
    assert "delay" not in means(slow_pair)
    assert means(lab_of("nothing", hosts=2)) == {}
    control = [
        "nsenter",
        f"--net=/run/netns/{one.namespace}",
        "cat",
        "/proc/sys/net/ipv4/tcp_congestion_control",
    ]
    assert subprocess.run(control, capture_output=True, text=True, check=True).stdout == "reno\n"


@needs_lab
@pytest.mark.root
@pytest.mark.alone
def test_workers_of_one_host_talk_over_its_loopback_and_feel_no_link(slow_pair):
    one = slow_pair.hosts[0]
    assert seconds_to_send(one, one, 10_000_000) < 10_000_000 * 8 / 20e6


@needs_lab
@pytest.mark.root
@pytest.mark.alone
@pytest.mark.skipif(root_group() is None, reason="no cgroup with a CPU quota")
def test_a_slow_host_computes_as_slowly_as_its_share(slow_pair):
    spin = "import time\nt = time.monotonic()\nwhile time.process_time() < 0.3: pass\nprint(time.monotonic() - t)"
    command = Command((sys.executable, "-c", spin), "/", {}, "/", "t")
    argv = inside(slow_pair.hosts[1], command).argv
    assert float(subprocess.run(argv, capture_output=True, text=True, check=True).stdout) > 0.8 * 0.28 / 0.25


@needs_lab
@pytest.mark.root
@pytest.mark.alone
def test_frames_take_their_delay_both_ways():
    with opened(lab_of(new_name(), hosts=2, delay="20ms")) as lab:
        assert uses_userspace_switch(lab) == bool(tagged(f"{lab.name}:"))
        assert seconds_to_send(*lab.hosts, 1) > 0.040
    assert tagged(f"{lab.name}:") == []


@needs_lab
@pytest.mark.root
@pytest.mark.alone
def test_what_a_killed_owner_left_is_ended_by_the_next_lab(tmp_path):
    script = (
        "import subprocess, sys, time\n"
        "from paceline.testbed.blueprint import lab_of\n"
        "from paceline.testbed.owner import made, new_name\n"
        "lab = lab_of(new_name(), hosts=2, delay='1ms', cpu='50%')\n"
        "made(lab)\n"
        "space = lab.hosts[0].namespace\n"
        "child = subprocess.Popen(['nsenter', f'--net=/run/netns/{space}', 'sleep', '600'])\n"
        "print(lab.name, child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    made = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    name, child = made.stdout.readline().split()
    made.send_signal(signal.SIGKILL)
    made.wait()
    made.stdout.close()
    assert list(Path("/run/netns").glob(f"{name}-*"))
    said = desk("lab", "status", cwd=tmp_path)
    assert f"ended {name}" in said.stderr
    assert not list(Path("/run/netns").glob(f"{name}-*"))
    assert not quota.groups_like(name)
    assert not alive(int(child))


@needs_lab
@pytest.mark.root
@pytest.mark.alone
def test_a_lab_that_is_kept_stays_until_it_is_taken_down(tmp_path):
    up = desk("lab", "up", "--hosts", "2", "--link", "50mbit", cwd=tmp_path)
    assert up.returncode == 0, up.stderr
    name = up.stdout.split(":")[0]
    try:
        assert sweep() == []
        shown = json.loads(desk("lab", "status", "--json", cwd=tmp_path).stdout)
        assert [row["hosts"][1]["bits_per_s"] for row in shown if row["name"] == name] == [50e6]
    finally:
        end_lab(name)
    assert not list(Path("/run/netns").glob(f"{name}-*"))


@needs_lab
@pytest.mark.root
@pytest.mark.alone
def test_a_lab_that_cannot_be_built_whole_leaves_nothing():
    lab = lab_of(new_name(), hosts=2)
    subprocess.run(
        ["ip", "netns", "add", lab.hosts[1].namespace], check=True
    )  # in the way of the second host
    with pytest.raises(PacelineError, match="failed"):
        owner.made(lab)
    assert not list(Path("/run/netns").glob(f"{lab.name}-*"))


def alive(pid):
    with contextlib.suppress(OSError):
        for _ in range(50):
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            if state in "ZX":
                return False
            time.sleep(0.1)
        return True
    return False
