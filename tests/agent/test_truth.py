"""The split tells the truth: delays of known length, injected into real two-worker DDP trainings, are found again.

Computation is sleep here: two cores shared with others would otherwise add their own lateness to the injected one.
What is injected is many times what an exchange takes when nothing is: where gloo's two threads share a core with
others, one turns in circles until the scheduler's next tick while the other waits for its turn with the lock that the
first is after, which makes 0.4 to 6 ms of the same few bytes (evidence/2026-11-15-gloo-lock).
Workers are forked from a process that has torch, for it is their steps that are timed and not their start; those
on the shaped link start as a user's do.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys

import pytest

from paceline.core.stats import estimate
from paceline.measure.profiles import curve, launches
from paceline.plan.trials import plan_study
from paceline.predict.observations import observe
from paceline.records import Study, Workload
from tests.support.trial import SCRIPTS, InNamespace, measured, run_points
from tests.support.warm import WarmLauncher

pytestmark = pytest.mark.alone

COMPUTE = ("--compute", "0.03")
INJECTED_S = 0.1
BLAMED_S = 0.1 * INJECTED_S  # the most of it that may be found in the wrong place


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    """The same training with nothing injected: what the machine itself adds."""
    return measured(tmp_path_factory.mktemp("quiet"), "plain_ddp.py", *COMPUTE, launcher=WarmLauncher())[1]


def test_a_late_worker_is_straggle_and_is_named_and_the_wire_is_not_blamed(tmp_path, quiet):
    _, split = measured(
        tmp_path, "plain_ddp.py", *COMPUTE, "--late", str(INJECTED_S), launcher=WarmLauncher()
    )
    assert split.straggle_s == pytest.approx(INJECTED_S, abs=BLAMED_S)
    assert split.slowest_worker == 1
    assert split.slowest_lag_s == pytest.approx(INJECTED_S, abs=BLAMED_S)
    assert split.wire_s <= quiet.wire_s + BLAMED_S
    assert split.compute_s == pytest.approx(quiet.compute_s, abs=0.005)


def test_slow_data_on_all_workers_is_input(tmp_path, quiet):
    asked = (*COMPUTE, "--slow-data", str(INJECTED_S))
    _, split = measured(tmp_path, "plain_ddp.py", *asked, launcher=WarmLauncher())
    assert split.input_s == pytest.approx(INJECTED_S, abs=BLAMED_S)
    assert split.compute_s - quiet.compute_s == pytest.approx(INJECTED_S, abs=BLAMED_S)
    assert split.wire_s <= quiet.wire_s + BLAMED_S


def test_a_slow_exchange_is_wire_and_nobody_is_late(tmp_path, quiet):
    """One bucket, so the hook runs once per step and delays its exchange on both workers alike."""
    asked = (*COMPUTE, "--slow-exchange", str(INJECTED_S))
    _, split = measured(tmp_path, "plain_ddp.py", *asked, launcher=WarmLauncher())
    assert split.wire_s - quiet.wire_s == pytest.approx(INJECTED_S, abs=BLAMED_S)
    assert split.straggle_s <= quiet.straggle_s + BLAMED_S
    assert split.slowest_worker is None


NEIGHBOUR = """
import torch
torch.set_num_threads(1)
matrix = torch.randn(256, 256)
torch.mm(matrix, matrix)
print("computes", flush=True)
while True:
    torch.mm(matrix, matrix)
"""


@contextlib.contextmanager
def neighbour():
    """A process that computes all the time and exchanges nothing: what a second worker may do to the first at most."""
    with subprocess.Popen([sys.executable, "-c", NEIGHBOUR], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "computes\n"
            yield
        finally:
            process.kill()


@pytest.mark.parametrize("compute", [COMPUTE, ("--matmuls", "60")], ids=["asleep", "computing"])
def test_with_nothing_injected_compute_at_two_workers_is_the_step_at_one(tmp_path, compute):
    """Of two the typical worker is the faster, so compute is the smaller of two numbers that differ by chance, here by
    0.1 to 0.8 ms: halfway to the other worker it is not less than one worker alone takes. And it is not more than one
    takes beside another that computes: cores of one machine share more than their number tells (3% were seen)."""
    (one, two), groups = told(tmp_path / "apart", compute, workers=(1, 2))
    with neighbour() if "--matmuls" in compute else contextlib.nullcontext():
        (beside,), _ = told(tmp_path / "beside", compute, workers=(1,))
    halfway_s = estimate([part.compute_s + _apart_s(part) / 2 for part in groups[1].splits])
    assert two.compute_s.low <= max(one.step_s.high, beside.step_s.high)
    assert halfway_s.high >= one.step_s.low


def told(folder, compute, workers):
    """The Profiles of a study with these worker counts, and the launches behind them."""
    script = Workload("script", str(SCRIPTS / "plain_ddp.py"), compute)
    study = Study(script, workers=workers, repeats=4, steps=20, warmup=8)
    results = run_points(folder, study, WarmLauncher())
    groups = launches(plan_study(study).points, results, warmup=8, steps=20)
    return curve(groups), groups


def _apart_s(part):
    return max(part.own_s_by_worker) - min(part.own_s_by_worker)


def test_one_worker_tells_what_several_will_broadcast_before_every_forward(tmp_path):
    """Mean, variance and count of a layer that normalises over the batch: beside the buckets, whatever the network."""
    for folder, extra, share in (("plain", (), 0.0), ("normed", ("--normed",), (2 * 64 * 4 + 8) / 4.0)):
        script = Workload("script", str(SCRIPTS / "plain_ddp.py"), (*COMPUTE, "--width", "64", *extra))
        study = Study(script, workers=(1,), repeats=2, steps=10, warmup=4)
        results = run_points(tmp_path / folder, study, WarmLauncher())
        profiles = curve(launches(plan_study(study).points, results, warmup=4, steps=10))
        seen = observe(profiles, "step", backend="gloo")  # which no Point names, but the workers do
        numbers = 64 * 64 + 64 + 64 + 1 + (2 * 64 if extra else 0)
        assert seen.gradient_bytes == pytest.approx(4 * numbers)
        assert seen.overlap.open_share == pytest.approx(share / numbers)


def test_a_late_worker_is_found_without_ddp_too(tmp_path):
    """Gradients averaged by hand: the wait is inside the script's own all_reduce."""
    _, split = measured(tmp_path, "by_hand.py", str(INJECTED_S), launcher=WarmLauncher())
    assert split.straggle_s == pytest.approx(INJECTED_S, abs=BLAMED_S)
    assert split.slowest_worker == 1


RATE_BYTES_PER_S = 40e6
BURST_BYTES = 32_000


@pytest.fixture
def slow_loopback():
    """A network namespace whose loopback carries 320 Mbit/s."""
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("tc") is None:
        pytest.skip("needs root, ip and tc (iproute2) for a shaped link")
    name = f"paceline-test-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], check=False).returncode:
        pytest.skip("network namespaces cannot be made here")
    try:
        for command in (
            "ip link set lo mtu 1500 up",
            f"tc qdisc add dev lo root tbf rate 320mbit burst {BURST_BYTES} latency 400ms",
        ):
            subprocess.run(["ip", "netns", "exec", name, *command.split()], check=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


@pytest.mark.root
def test_a_shaped_link_is_wire_time_and_nobody_is_late(tmp_path, slow_loopback):
    """Two workers each send the gradients once (ring: 2(n-1)/n = 1), and the loopback carries both directions."""
    asked = ("--compute", "0.03", "--width", "512")
    _, split = measured(tmp_path, "plain_ddp.py", *asked, launcher=InNamespace(slow_loopback))
    sent_bytes = 2 * split.exchanged_bytes_per_step * (1 + 66 / 1448)  # Ethernet, IP and TCP headers
    assert split.wire_s == pytest.approx((sent_bytes - BURST_BYTES) / RATE_BYTES_PER_S, rel=0.10)
    assert split.straggle_s < 0.05 * split.wire_s + 0.002
    assert split.slowest_worker is None
