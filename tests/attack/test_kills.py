"""kill -9 of the desk or of any worker at random moments: nothing complete is lost, nothing half is read, no orphan."""

import contextlib
import json
import os
import signal
import time

import psutil
import pytest

from paceline.store.paths import StudyFolder
from paceline.store.trial_files import read_results
from tests.attack.chance import SEED, attempts, chance
from tests.support.desk import SCRIPTS, SMALL, desk, processes_of, started_desk

_OUT = ("--tight", "0", "--retry-failed", "--out", "s", SCRIPTS / "faults_train.py")


def asked(repeats):
    return ("--workers", "1,2", *SMALL, "--repeats", repeats, *_OUT)


def good(folder):
    """The commit marks of trials that went well."""
    marks = {path.parent.name: path.read_bytes() for path in folder.trials.glob("*/trial.json")}
    return {name: mark for name, mark in marks.items() if json.loads(mark)["state"] == "ok"}


def kill_at_random(where, rng, *, repeats):
    """Start the desk, then kill it, or one of its workers and soon the desk. How many were killed alive."""
    folder = StudyFolder(where / "s")
    before, killed = good(folder), 0
    process = started_desk("study", *asked(repeats), cwd=where)
    time.sleep(rng.uniform(0.2, 6.0))
    workers = [p.pid for p in processes_of(folder.root)]
    if workers and rng.random() < 0.5:
        with contextlib.suppress(ProcessLookupError):
            os.kill(rng.choice(workers), signal.SIGKILL)
            killed += 1
        time.sleep(rng.uniform(0.0, 3.0))
    killed += process.poll() is None
    process.kill()
    process.wait(timeout=30)
    _, alive = psutil.wait_procs(processes_of(folder.root), timeout=5)
    assert not alive, f"orphans: {[p.cmdline() for p in alive]}"
    after = good(folder)
    assert {name: after.get(name) for name in before} == before, "a complete trial was lost or changed"
    return killed


def sound(folder):
    """The results that stand: no trial that is read as ok is damaged or half."""
    results = read_results(folder)  # raises when anything half-written can be seen
    assert [result for result in results if result.state == "damaged"] == []
    return results


@pytest.mark.timeout(7200)
def test_random_kills_lose_nothing_and_leave_no_orphan(tmp_path, figures):
    rng, killed, repeats = chance("kills"), 0, 0
    for number in attempts(3, 500):
        repeats = (
            2 + number * 2 // 3
        )  # a desk does about one run before it is killed: there is always one to do
        killed += kill_at_random(tmp_path, rng, repeats=repeats)
        sound(StudyFolder(tmp_path / "s"))
    assert killed > 0, SEED
    done = desk("study", *asked(repeats), cwd=tmp_path, timeout=3600)
    assert done.returncode == 0, done.stderr
    results = sound(StudyFolder(tmp_path / "s"))
    assert [result.state for result in results] == ["ok"] * 2 * repeats
    assert not processes_of(tmp_path / "s")
    figures(
        f"kills: {killed} processes killed in {number + 1} desks, {len(results)} runs complete, none lost"
    )
