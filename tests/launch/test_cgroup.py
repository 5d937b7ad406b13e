"""How many cores a container leaves: read alike by the desk and by the agent, which may not import each other."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from paceline.core.manifest import cores_of
from paceline.launch import cgroup, processes
from paceline.launch.telemetry import Sampler
from paceline.store.telemetry_files import telemetry
from paceline_agent.record import cgroup as agent_cgroup
from tests.support.limited import limited, needs_limit


def desk(proc):
    return cgroup.quota_cores(proc / "mounts", proc / "cgroup")


def agent(proc):
    return agent_cgroup.quota_cores(str(proc))


@pytest.fixture(params=[desk, agent])
def read(request):
    return request.param


def version_1(folder, own, quotas):
    """A mounted cpu hierarchy with (quota, period) of groups by path, and a process in `own`."""
    mount = folder / "cpu,cpuacct"
    for path, (granted, period) in quotas.items():
        (mount / path).mkdir(parents=True, exist_ok=True)
        (mount / path / "cpu.cfs_quota_us").write_text(f"{granted}\n")
        (mount / path / "cpu.cfs_period_us").write_text(f"{period}\n")
    (folder / "mounts").write_text(
        f"tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup {mount} cgroup rw,relatime,cpu,cpuacct 0 0\n"
    )
    (folder / "cgroup").write_text(f"5:memory:/elsewhere\n4:cpu,cpuacct:{own}\n0::/\n")
    return folder


def version_2(folder, own, limits):
    """A mounted unified hierarchy with cpu.max of groups by path, and a process in `own`."""
    mount = folder / "unified"
    mount.mkdir()
    (mount / "cgroup.controllers").write_text("cpuset cpu io\n")
    for path, limit in limits.items():
        (mount / path).mkdir(parents=True, exist_ok=True)
        (mount / path / "cpu.max").write_text(limit + "\n")
    (folder / "mounts").write_text(f"cgroup2 {mount} cgroup2 rw,relatime 0 0\n")
    (folder / "cgroup").write_text(f"0::{own}\n")
    return folder


@pytest.mark.parametrize(
    ("own", "quotas", "cores"),
    [
        ("/", {"": (-1, 100_000)}, None),
        ("/box", {"": (-1, 100_000), "box": (150_000, 100_000)}, 1.5),
        ("/pod/box", {"pod": (400_000, 100_000), "pod/box": (-1, 100_000)}, 4.0),
        ("/pod/box", {"pod": (200_000, 100_000), "pod/box": (300_000, 100_000)}, 2.0),
        (
            "/host/path/of/the/box",
            {"": (25_000, 100_000)},
            0.25,
        ),  # a container sees its own group as the root
    ],
)
def test_version_1(tmp_path, read, own, quotas, cores):
    assert read(version_1(tmp_path, own, quotas)) == cores


@pytest.mark.parametrize(
    ("own", "limits", "cores"),
    [
        ("/", {}, None),
        ("/box", {"box": "max 100000"}, None),
        ("/box", {"box": "50000 100000"}, 0.5),
        ("/pod/box", {"pod": "800000 100000", "pod/box": "max 100000"}, 8.0),
        ("/../outside", {"": "300000 100000"}, 3.0),
        ("/box", {"box": "nonsense"}, None),
    ],
)
def test_version_2(tmp_path, read, own, limits, cores):
    assert read(version_2(tmp_path, own, limits)) == cores


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ("usage_usec 5\nnr_periods 40\nnr_throttled 30\nthrottled_usec 9\n", (40, 30)),  # version 2
        ("nr_periods 40\nnr_throttled 0\nthrottled_time 0\n", (40, 0)),  # version 1
        ("usage_usec 5\n", None),
        ("nr_periods many\nnr_throttled 0\n", None),
        ("", None),
    ],
)
def test_the_group_whose_quota_is_least_counts_its_periods(tmp_path, text, counted):
    folder = version_2(tmp_path, "/pod/box", {"pod": "200000 100000", "pod/box": "300000 100000"})
    group = cgroup.limiting_group(folder / "mounts", folder / "cgroup")
    assert group == folder / "unified" / "pod"
    (group / "cpu.stat").write_text(text)
    assert cgroup.periods(group) == counted
    assert cgroup.periods(folder) is None
    assert cgroup.limiting_group(folder / "cgroup", folder / "cgroup") is None


def test_a_machine_without_groups_has_no_quota(tmp_path, read):
    assert read(tmp_path) is None
    (tmp_path / "mounts").write_text("proc /proc proc rw 0 0\n")
    assert read(tmp_path) is None


def test_what_is_no_utf_8_or_has_no_colon_is_passed_over(tmp_path, read):
    folder = version_2(tmp_path, "/box", {"box": "50000 100000"})
    (folder / "mounts").write_bytes(b"tmpfs /mnt/\xff tmpfs rw 0 0\n" + (folder / "mounts").read_bytes())
    (folder / "cgroup").write_bytes(b"nonsense\n\xff\n" + (folder / "cgroup").read_bytes())
    assert read(folder) == 0.5


@pytest.mark.parametrize(
    ("manifest", "cores"),
    [({}, None), ({"cpus": 0}, None), ({"cpus": 8}, 8), ({"cpus": 8, "cpu_quota": None}, 8),
     ({"cpus": 8, "cpu_quota": 2.5}, 2), ({"cpus": 8, "cpu_quota": 0.25}, 1), ({"cpus": 2, "cpu_quota": 8.0}, 2)],
)  # fmt: skip
def test_a_worker_has_the_cores_that_its_quota_pays_for(manifest, cores):
    assert cores_of(manifest) == cores


@needs_limit
def test_a_process_in_a_group_knows_its_quota():
    """The kernel's own files: what is set is read again, from inside by the agent and from outside by the desk."""
    asked = (
        "from paceline_agent.record.host import identity; print(identity()['cpu_quota'], flush=True); input()"
    )
    with limited(0.5) as words:
        process = subprocess.Popen(
            [*words, sys.executable, "-c", asked],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert float(process.stdout.readline()) == pytest.approx(0.5)
            assert processes.cores_of(psutil.Process(process.pid)) == pytest.approx(0.5)
        finally:
            process.communicate("\n", timeout=30)


@needs_limit
@pytest.mark.parametrize(
    ("work", "low", "high"), [("while True: pass", 0.7, 1.0), ("import time; time.sleep(60)", 0.0, 0.5)]
)
def test_a_worker_that_its_limit_stops_is_seen_from_outside(tmp_path, work, low, high):
    """The kernel's own counters: one that wants a core and gets a fifth is stopped in nearly every period."""
    with limited(0.2) as words:
        process = subprocess.Popen(
            [*words, sys.executable, "-c", work],
            env={**os.environ, "PACELINE_TAG": "s:t"},
        )
        try:
            time.sleep(0.5)  # Python has started
            sampler = Sampler(tmp_path, tag="s:t", node=0)
            for _ in range(4):
                sampler.look([(0, process.pid)])
                time.sleep(0.5)
            sampler.close()
        finally:
            process.kill()
            process.wait()
    first, *_, last = telemetry(tmp_path)
    wanted = last.periods - first.periods
    assert low * wanted <= last.stopped_periods - first.stopped_periods <= high * max(wanted, 10)
