"""Fault drills in the laboratory, through the desk's own study: the trial ends in the right state, the study goes on.

A drill waits until every worker has done five steps, and then does its harm.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Timer

import pytest

import paceline_agent
from paceline.plan.trials import plan_study
from paceline.records import Study, Workload
from paceline.run.clock import SystemClock
from paceline.run.study import Silent, run_study
from paceline.run.trial import Bench
from paceline.store.paths import StudyFolder
from paceline.store.trial_files import read_results
from paceline.testbed.blueprint import lab_of
from paceline.testbed.launcher import LabLauncher, rendezvous_in
from paceline.testbed.network import cut, heal, lose
from paceline.testbed.owner import new_name, opened, sweep
from tests.support.desk import processes_of
from tests.testbed.test_lab import needs_lab

SCRIPTS = Path(__file__).parents[1] / "scripts"
BEFORE = 5  # steps
AGENT = Path(paceline_agent.__file__).parent


class Harm(Silent):
    """Does one thing to each of the first trials, once it is under way."""

    __slots__ = ("_done", "_harms")

    def __init__(self, *harms):
        object.__setattr__(self, "_harms", list(harms))
        object.__setattr__(self, "_done", set())

    def stepped(self, trial, beats):
        number = trial.repeat - 1
        ready = len(beats) == trial.point.workers and min(beat.steps for beat in beats) >= BEFORE
        if ready and number < len(self._harms) and number not in self._done:
            self._done.add(number)
            self._harms[number](beats)


def study_of(**asked):
    """Twenty steps of a tenth of a second on two hosts."""
    workload = Workload("script", str(SCRIPTS / "plain_ddp.py"), ("--compute", "0.1"))
    fields = {
        "steps": 20,
        "warmup": 2,
        "timeout_s": 100.0,
        "hang_s": 6.0,
        "tight_ratio": 1e-6,
        "threads": 1,
        **asked,
    }
    return Study(workload, workers=(), nodes=(2,), **fields)


def drilled(folder, lab, harms, **asked):
    """Every trial of a study in which these harms are done, and none of its processes left."""
    home, study = StudyFolder(folder / "study"), study_of(**{"repeats": len(harms) + 1, **asked})
    bench = Bench(LabLauncher(lab), sys.executable, 1, AGENT, None, SystemClock(), rendezvous_in(lab))
    run_study(home, study, plan_study(study), bench=bench, listener=Harm(*harms))
    assert processes_of(home.root) == []
    return {result.trial.repeat: result for result in read_results(home)}


def for_seconds(lab, seconds, harm):
    """Harm the link of host 2, and heal it after a while."""

    def do(beats):
        harm(lab, lab.hosts[1])
        Timer(seconds, heal, (lab, lab.hosts[1])).start()

    return do


def gone(lab, number):
    """A host loses its power: no process and no word is left of it."""

    def do(beats):
        host = lab.hosts[number - 1]
        cut(lab, host)
        pids = subprocess.run(
            ["ip", "netns", "pids", host.namespace], capture_output=True, text=True, check=True
        )
        for pid in pids.stdout.split():
            os.kill(int(pid), signal.SIGKILL)

    return do


@pytest.fixture(scope="module")
def pair():
    sweep()
    with opened(lab_of(new_name(), hosts=2, link="200mbit")) as lab:
        yield lab


@pytest.fixture(scope="module")
def disturbed(pair, tmp_path_factory):
    """A frozen worker, and then a cut link that heals: the study has gone on."""
    frozen = lambda beats: os.kill(max(beats, key=lambda beat: beat.rank).pid, signal.SIGSTOP)  # noqa: E731
    return drilled(tmp_path_factory.mktemp("drill"), pair, [frozen, for_seconds(pair, 2.0, cut)], repeats=2)


@needs_lab
@pytest.mark.root
@pytest.mark.alone
def test_a_link_that_heals_before_the_hang_limit_costs_time_only(disturbed):
    assert disturbed[2].state == "ok", disturbed[2].reason
    worst = max(sample.step_s for worker in disturbed[2].workers for sample in worker.samples)
    assert worst > 1.0  # one step waited for the link


@needs_lab
@pytest.mark.root
@pytest.mark.alone
def test_a_frozen_worker_is_a_hang_that_names_it_and_the_study_goes_on(disturbed):
    assert disturbed[1].state == "hung"
    assert "worker 1 of 2 is behind" in disturbed[1].reason
    assert "does not answer" in disturbed[1].reason
    assert disturbed[2].state == "ok", disturbed[2].reason


@needs_lab
@pytest.mark.root
@pytest.mark.alone
@pytest.mark.slow
def test_total_loss_for_five_seconds_is_survived(pair, tmp_path):
    results = drilled(tmp_path, pair, [for_seconds(pair, 5.0, lose)], hang_s=30.0)
    assert [results[n].state for n in (1, 2)] == ["ok", "ok"], results[1].reason
    assert max(sample.step_s for worker in results[1].workers for sample in worker.samples) > 3.0


@needs_lab
@pytest.mark.root
@pytest.mark.alone
@pytest.mark.slow
def test_a_link_that_stays_cut_is_a_hang_and_the_study_goes_on_when_it_heals(pair, tmp_path):
    results = drilled(tmp_path, pair, [for_seconds(pair, 16.0, cut)])
    assert results[1].state == "hung"
    assert results[2].state == "ok", results[2].reason


@needs_lab
@pytest.mark.root
@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2], ids=["rendezvous host", "other host"])
def test_a_host_that_is_gone_ends_its_trial_and_the_study_resumes(pair, tmp_path, number):
    try:
        results = drilled(tmp_path, pair, [gone(pair, number)], timeout_s=60.0)
    finally:
        heal(pair, pair.hosts[number - 1])
    assert results[1].state == "crashed"
    assert f"host {number} of 2: its launcher was killed by SIGKILL" in results[1].reason
    assert results[1].wall_s < 60.0
    assert results[2].state != "ok"  # the host is still away
    home = StudyFolder(tmp_path / "study")
    bench = Bench(LabLauncher(pair), sys.executable, 1, AGENT, None, SystemClock(), rendezvous_in(pair))
    again = study_of(repeats=2, timeout_s=60.0)
    run_study(home, again, plan_study(again), bench=bench, listener=Silent(), retry_failed=True)
    assert [result.state for result in read_results(home)] == ["ok", "ok"]
