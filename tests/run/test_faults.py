"""Faults are results: real processes, gloo, two workers. Each ends in a state whose reason names worker and cause."""

import json
import os
import re
import signal
import socket
import time
from pathlib import Path

import pytest

from paceline.core.errors import StudyInUse
from paceline.store.lock import locked
from paceline.store.paths import StudyFolder
from paceline.store.trial_files import read_results
from paceline.store.worker_files import heartbeats
from tests.support.desk import SCRIPTS, SMALL, desk, processes_of, started_desk
from tests.support.trial import trial
from tests.support.warm import WarmLauncher

FAULTY = SCRIPTS / "faults_train.py"


@pytest.mark.parametrize(
    ("fault", "state", "reason"),
    [
        ("crash", "crashed", "worker 1 of 2: RuntimeError: boom (faults_train.py:"),
        ("exit", "crashed", "worker 1 of 2 exited with code 7 after 3 steps"),
        ("kill", "crashed", "worker 1 of 2 killed by SIGKILL after 3 steps"),
        (
            "leave",
            "crashed",
            "worker 1 of 2 ended with exit code 0 after 3 steps, before the others; worker 0 of 2: ",
        ),
        ("vanish", "crashed", "worker 1 of 2 left after 3 steps without a word (os._exit?); worker 0 of 2: "),
        ("nan", "diverged", "worker 0 of 2: the loss became nan at step "),
        ("never-steps", "short", "the script ended without one optimizer step on any of 2 workers"),
    ],
)
def test_a_fault_is_a_state_with_a_reason(tmp_path, fault, state, reason):
    result = trial(tmp_path, "faults_train.py", "--fault", fault)
    assert result.state == state, f"{result.reason}\n{result.log_tail}"
    assert result.reason.startswith(reason)
    assert not processes_of(tmp_path / "study")


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("oom", "worker 0 of 1: OutOfMemoryError: tried to allocate 2.00 TiB (faults_train.py:"),
        ("device-memory", "worker 0 of 1: RuntimeError: "),
        ("host-memory", "worker 0 of 1: MemoryError (faults_train.py:"),
    ],
)
def test_memory_that_is_not_there_is_oom(tmp_path, alone, fault, reason):
    """Two workers of which one is out of memory are below, in a study that goes on."""
    asked = {"workers": 1, "start": "script", "launcher": WarmLauncher()}
    result = trial(tmp_path, "faults_train.py", "--fault", fault, "--on", "0", **asked)
    assert result.state == "oom", f"{result.reason}\n{result.log_tail}"
    assert result.reason.startswith(reason)


def test_a_hang_is_ended_and_says_who_stands_where(tmp_path):
    result = trial(tmp_path, "faults_train.py", "--fault", "hang", hang_s=3.0)
    assert result.state == "hung"
    line = 1 + FAULTY.read_text().splitlines().index("        time.sleep(3600)")
    waits = result.reason.rpartition(". ")[2]
    assert result.reason == (
        f"no step for 3.00 s: worker 1 of 2 is behind after 3 steps, standing in faults_train.py:{line}. {waits}"
    )
    assert re.fullmatch(
        r"Worker 0 waits in all_reduce \(operation \d+ of all workers\); worker 1 has not arrived", waits
    )
    stacks = (tmp_path / "study" / "trials" / "w2-1" / "stacks-0.txt").read_text()
    assert "loss.backward" in stacks or "in backward" in stacks
    assert not processes_of(tmp_path / "study")


def test_a_trial_that_takes_too_long_is_ended(tmp_path):
    result = trial(tmp_path, "faults_train.py", warmup=100_000, timeout_s=10.0)
    assert result.state == "timeout"
    assert result.reason.startswith("not finished within 10.0 s: worker ")
    assert not processes_of(tmp_path / "study")


def test_a_port_in_use_is_called_that(tmp_path):
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = str(busy.getsockname()[1])
        result = trial(tmp_path, "faults_spawn.py", "--world-size", "2", "--port", port, start="script")
    assert result.state == "crashed"
    assert f"the port {port} is in use" in result.reason
    assert "worker 0 of 2" in result.reason


def test_a_point_that_fails_does_not_stop_the_study(tmp_path):
    done = desk("study", "--workers", "1,2", *SMALL, "--json", FAULTY, "--", "--fault", "oom", cwd=tmp_path)
    alone, both = json.loads(done.stdout)["points"]
    assert (alone["state"], both["state"]) == ("ok", "oom")
    said = "worker 1 of 2: OutOfMemoryError: tried to allocate 2.00 TiB (faults_train.py:"
    assert both["reason"].startswith(said)
    assert alone["step_s"]["value"] > 0
    assert both["step_s"] is None
    assert done.returncode == 0, done.stderr


def test_a_missing_script_is_refused_before_anything_is_made(tmp_path):
    done = desk("study", "--workers", "1,2", "--json", "nowhere.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"there is no script {tmp_path / 'nowhere.py'}" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_script_that_goes_missing_is_a_state(tmp_path, alone):
    result = trial(tmp_path, "nowhere.py", workers=1, start="script", launcher=WarmLauncher())
    assert result.state == "crashed"
    assert "nowhere.py does not exist" in result.reason


def test_hostile_names_are_data_never_code(tmp_path):
    name = 'it\'s $(touch HACKED) `touch HACKED` "é漢" ; touch HACKED #.py'
    where = tmp_path / "a b $(touch HACKED) 'q' é"
    where.mkdir()
    (where / name).write_text(FAULTY.read_text())
    echo = "$(touch HACKED) 'q' \"d\" `x` é {other} -- \\ *"
    done = desk(
        "study",
        "--workers",
        "2",
        *SMALL,
        "--out",
        "o $(touch HACKED)'\"",
        name,
        "--",
        "--echo",
        echo,
        cwd=where,
    )
    assert done.returncode == 0, done.stderr
    (result,) = read_results(StudyFolder(where / "o $(touch HACKED)'\""))
    assert result.state == "ok"
    assert f"echo: {echo}" in (where / "o $(touch HACKED)'\"" / "trials" / "w2-1" / "out-0.log").read_text()
    assert not [path for path in tmp_path.rglob("*") if path.name == "HACKED"]


def test_an_interrupt_leaves_a_valid_study_that_goes_on(tmp_path):
    held = tmp_path / "held"
    held.touch()  # while it is there, worker 1 of 2 does not go on
    asked = ("study", "--workers", "1,2", *SMALL, "--out", "s", FAULTY, "--", "--fault", f"held-by:{held}")
    first = started_desk(*asked, cwd=tmp_path)
    wait_for(
        lambda: (tmp_path / "s/trials/w1-1/trial.json").exists() and (tmp_path / "s/trials/w2-1").exists()
    )
    first.send_signal(signal.SIGINT)
    assert first.wait(timeout=30) == 130
    assert not processes_of(tmp_path / "s")
    kept = (tmp_path / "s/trials/w1-1/trial.json").stat().st_mtime_ns
    assert json.loads((tmp_path / "s/analysis.json").read_text())["points"][0]["state"] == "ok"
    held.unlink()
    again = desk("study", "s", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "s/trials/w1-1/trial.json").stat().st_mtime_ns == kept
    assert [r.state for r in read_results(StudyFolder(tmp_path / "s"))] == ["ok", "ok"]


def test_a_study_that_is_moved_while_it_runs_ends_within_ten_seconds(tmp_path):
    held = tmp_path / "held"
    held.touch()
    asked = ("study", "--workers", "1,2", *SMALL, "--out", "s", FAULTY, "--", "--fault", f"held-by:{held}")
    desk_ = started_desk(*asked, cwd=tmp_path)
    wait_for(lambda: any(beat.steps for beat in heartbeats(tmp_path / "s/trials/w2-1")))
    (tmp_path / "s").rename(tmp_path / "elsewhere")
    assert desk_.wait(timeout=10) == 1
    assert not processes_of(tmp_path / "s")
    assert not (tmp_path / "s").exists()
    held.unlink()
    again = desk("study", "elsewhere", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert [r.state for r in read_results(StudyFolder(tmp_path / "elsewhere"))] == ["ok", "ok"]


@pytest.fixture
def little_memory():
    """The members file of a control group that may hold 64 MB."""
    parent = Path("/sys/fs/cgroup/memory")
    limit = "memory.limit_in_bytes" if parent.is_dir() else "memory.max"
    parent = parent if parent.is_dir() else Path("/sys/fs/cgroup")
    group = parent / f"paceline-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / limit).write_text(str(64 * 2**20))
    except OSError as problem:
        pytest.skip(f"no control group for memory can be made here: {problem}")
    yield group / "cgroup.procs"
    group.rmdir()


def test_a_worker_that_the_kernel_ends_for_want_of_memory_is_oom(tmp_path, little_memory):
    result = trial(tmp_path, "faults_train.py", "--fault", f"kernel-memory:{little_memory}")
    assert result.state == "oom"
    assert result.reason.startswith("worker 1 of 2 killed by SIGKILL after 3 steps: the kernel ended it")


def test_a_second_desk_on_the_same_study_is_refused(tmp_path):
    folder = StudyFolder(tmp_path / "s")
    folder.root.mkdir()
    with locked(folder):
        done = desk("study", "--workers", "1", *SMALL, "--out", "s", FAULTY, cwd=tmp_path)
        with pytest.raises(StudyInUse), locked(folder):
            pass
    assert done.returncode == 1
    assert f"another desk (process {os.getpid()} on" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_worker_outlives_a_killed_desk_when_the_script_starts_its_own(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    spawning = (SCRIPTS / "faults_spawn.py", "--", "--world-size", "{workers}", "--port", port)
    process = started_desk(
        "study", "--workers", "2", "--warmup", "100000", "--out", "s", *spawning, cwd=tmp_path
    )
    wait_for(lambda: [beat.steps > 5 for beat in heartbeats(tmp_path / "s/trials/w2-1")] == [True, True])
    process.kill()
    process.wait(timeout=10)
    wait_for(lambda: not processes_of(tmp_path / "s"), timeout_s=5.0)


def wait_for(condition, timeout_s=60.0):
    until = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.02)
