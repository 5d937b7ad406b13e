"""What links and hosts of different speed do to a real training, as theory says: proofs that take a minute each."""

import sys
from pathlib import Path

import pytest

import paceline_agent
from paceline.measure.split import split
from paceline.plan.trials import plan_study
from paceline.records import Study, Workload
from paceline.run.clock import SystemClock
from paceline.run.study import Silent, run_study
from paceline.run.trial import Bench
from paceline.store.paths import StudyFolder
from paceline.store.trial_files import read_results
from paceline.testbed.blueprint import lab_of
from paceline.testbed.launcher import LabLauncher, rendezvous_in
from paceline.testbed.owner import new_name, opened
from tests.testbed.test_lab import needs_lab

pytestmark = [needs_lab, pytest.mark.root, pytest.mark.slow]
SCRIPT = str(Path(__file__).parents[1] / "scripts" / "plain_ddp.py")
AGENT = Path(paceline_agent.__file__).parent
TCP = 1448 / 1514  # of a frame is payload
GRADIENT_BYTES = 4 * (512 * 512 + 512 + 512 + 1)


def measured(folder, *args, hosts, per_node=1, **shape):
    """One trial on all hosts of a lab of this shape, split."""
    study = Study(
        Workload("script", SCRIPT, ("--width", "512", *args)),
        workers=(),
        nodes=(hosts,),
        workers_per_node=(per_node,),
        repeats=1,
        steps=16,
        warmup=4,
        threads=1,
        timeout_s=150.0,
    )
    home = StudyFolder(folder / "study")
    with opened(lab_of(new_name(), hosts=hosts, **shape)) as lab:
        bench = Bench(LabLauncher(lab), sys.executable, 1, AGENT, None, SystemClock(), rendezvous_in(lab))
        run_study(home, study, plan_study(study), bench=bench, listener=Silent())
    (result,) = read_results(home)
    assert result.state == "ok", f"{result.reason}\n{result.log_tail}"
    parts = split(result, warmup=study.warmup, steps=study.steps)
    assert parts is not None
    return parts


def ring_s(workers, mbit_per_s):
    """Seconds to move the gradients round a ring: 2(N-1)/N of them over every link."""
    return 2 * (workers - 1) / workers * GRADIENT_BYTES / (mbit_per_s * 1e6 / 8 * TCP)


def test_a_ring_is_as_fast_as_its_slowest_link(tmp_path):
    parts = measured(tmp_path, "--compute", "0.05", hosts=3, link="200mbit", slow_links=["2:40mbit"])
    assert parts.wire_s == pytest.approx(ring_s(3, 40), rel=0.2)  # five times what the others would take


def test_two_hosts_of_two_workers_pay_for_the_link_between_them_only(tmp_path):
    parts = measured(tmp_path, "--compute", "0.05", hosts=2, per_node=2, link="50mbit")
    assert parts.wire_s == pytest.approx(ring_s(4, 50), rel=0.2)


def test_the_worker_of_a_slow_host_is_named(tmp_path):
    parts = measured(tmp_path, "--matmuls", "20", hosts=3, cpu="40%", slow_hosts=["3:25%"])
    assert parts.slowest_worker is not None
    assert parts.own_s_by_worker[parts.slowest_worker] == max(parts.own_s_by_worker)
    assert parts.straggle_s > parts.wire_s
