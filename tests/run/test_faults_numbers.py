"""A worker's number is its own: two living processes that say they are worker 0 are seen as two."""

import os
import subprocess
import sys

import pytest

from paceline_agent.agent import WORKER, Agent, is_helper
from paceline_agent.record import files
from paceline_agent.settings import Settings


def beat(folder, rank, pid, phase):
    (folder / f"heartbeat-{rank}").write_bytes(files.HEARTBEAT.pack(3, 1.0, pid, phase))


@pytest.fixture
def gone():
    """The number of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    ended.wait()
    return ended.pid


def test_a_number_that_nobody_has_is_taken(tmp_path):
    assert files.own_number(str(tmp_path), 1, 2) == 1
    assert (tmp_path / "heartbeat-1").exists()


def test_a_number_that_a_living_process_has_is_left_to_it(tmp_path):
    beat(tmp_path, 0, os.getppid(), files.STEPPING)
    assert files.own_number(str(tmp_path), 0, 2) == 2
    (tmp_path / "heartbeat-1").touch()  # of one that is just beginning
    assert files.own_number(str(tmp_path), 1, 2) == 3


def test_a_second_phase_takes_over_the_numbers_of_the_first(tmp_path, gone):
    beat(tmp_path, 0, gone, files.STEPPING)
    beat(tmp_path, 1, os.getppid(), files.FINISHED)
    beat(tmp_path, 2, os.getpid(), files.STEPPING)
    assert [files.own_number(str(tmp_path), rank, 3) for rank in range(3)] == [0, 1, 2]


def test_nobody_waits_for_workers_that_another_launcher_had(tmp_path, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    agent = Agent(Settings(str(tmp_path), workers=1))
    agent.world = 8
    (tmp_path / "worker-0.jsonl").touch()
    assert agent._all_written()


@pytest.mark.parametrize(
    ("worker", "run_id", "helps"),
    [(None, "1", False), ("own", "1", False), ("other", "1", True), ("other", None, False)],
)
def test_what_a_worker_of_torchrun_starts_for_itself_is_no_worker(monkeypatch, worker, run_id, helps):
    known = {"own": str(os.getpid()), "other": str(os.getppid())}
    for name, value in ((WORKER, known.get(worker)), ("TORCHELASTIC_RUN_ID", run_id)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert is_helper() is helps
