"""kill -9 of the desk or of any worker at random moments: nothing complete is lost, nothing half is read, no orphan."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time

import psutil
import pytest

from paceline.store.paths import StudyFolder
from paceline.store.trial_files import read_results
from tests.desk import SCRIPTS, SMALL, desk, processes_of, started_desk


def asked(repeats):
    script = SCRIPTS / "faults_train.py"
    return (
        "--workers",
        "1,2",
        *SMALL,
        "--repeats",
        repeats,
        "--tight",
        "0",
        "--retry-failed",
        "--out",
        "s",
        script,
    )


def good(folder):
    """The commit marks of trials that went well."""
    marks = {path.parent.name: path.read_bytes() for path in folder.trials.glob("*/trial.json")}
    return {name: mark for name, mark in marks.items() if json.loads(mark)["state"] == "ok"}


def kill_at_random(where, chance, *, repeats):
    """Start the desk, then kill it, or one of its workers and soon the desk. How many were killed alive."""
    folder = StudyFolder(where / "s")
    before, killed = good(folder), 0
    process = started_desk("study", *asked(repeats), cwd=where)
    time.sleep(chance.uniform(0.2, 6.0))
    workers = [p.pid for p in processes_of(folder.root)]
    if workers and chance.random() < 0.5:
        with contextlib.suppress(ProcessLookupError):
            os.kill(chance.choice(workers), signal.SIGKILL)
            killed += 1
        time.sleep(chance.uniform(0.0, 3.0))
    killed += process.poll() is None
    process.kill()
    process.wait(timeout=30)
    _, alive = psutil.wait_procs(processes_of(folder.root), timeout=5)
    assert not alive, f"orphans: {[p.cmdline() for p in alive]}"
    after = good(folder)
    assert {name: after.get(name) for name in before} == before, "a complete trial was lost or changed"
    read_results(folder)  # raises when anything half-written can be seen
    return killed


def survives(where, *, kills, repeats, seed):
    chance, killed = random.Random(seed), 0
    while killed < kills:
        now = kill_at_random(where, chance, repeats=repeats)
        assert now, f"the study was complete after {killed} kills: ask for more repeats"
        killed += now
    done = desk("study", *asked(repeats), cwd=where, timeout=600)
    assert done.returncode == 0, done.stderr
    states = [result.state for result in read_results(StudyFolder(where / "s"))]
    assert states == ["ok"] * 2 * repeats
    assert not processes_of(where / "s")


def test_five_kills_lose_nothing(tmp_path):
    survives(tmp_path, kills=5, repeats=3, seed=5)


BEGIN = "from paceline_agent.host import die_with_parent; die_with_parent(torchrun=True); print('alive')"
AROUND = """
import json, os, subprocess, sys
environment = {**os.environ, **json.loads(os.environ["OF_THE_TRIAL"])}
sys.exit(subprocess.run([sys.executable, "-c", os.environ["BEGIN"]], env=environment).returncode)
"""


@pytest.mark.parametrize("lives", [True, False])
def test_a_worker_that_was_orphaned_before_it_began_ends_itself(lives):
    """A kill may come in the tenth of a second in which Python starts: then another process is the parent already."""
    trial = {"PACELINE_TAG": "s:w2-1", "TORCHELASTIC_RUN_ID": "none"}
    own = {**os.environ, "BEGIN": BEGIN, "OF_THE_TRIAL": json.dumps(trial), **(trial if lives else {})}
    argv = [sys.executable, "-c", AROUND]
    ended = subprocess.run(argv, env=own, stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    alive, killed = (0, "alive\n"), (-signal.SIGKILL % 256, "")
    assert (ended.returncode, ended.stdout) == (alive if lives else killed)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_fifty_kills_lose_nothing(tmp_path):
    survives(tmp_path, kills=50, repeats=20, seed=50)
