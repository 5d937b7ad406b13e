"""A hang names the operation, its group and who has not arrived; what goes wrong otherwise ends as it would have."""

from __future__ import annotations

import json
import time

import pytest

from paceline_agent.watch.standstill import Standstill
from tests.support.trial import trial
from tests.support.warm import WarmLauncher

HANG_S = 4.0


def ended(folder, how, *args, workers=2, **asked):
    return trial(folder, "hangs.py", how, *args, workers=workers, launcher=WarmLauncher(), **asked)


@pytest.mark.parametrize(
    ("how", "workers", "said"),
    [
        ("absent", 2, "Worker 0 waits in all_reduce (operation 9 of all workers); worker 1 has not arrived"),
        (
            "absent",
            3,
            "Workers 0 and 2 wait in all_reduce (operation 9 of all workers); worker 1 has not arrived",
        ),
        (
            "mismatched",
            2,
            "Operation 9 of all workers differs: worker 0 all_reduce of 4 numbers, worker 1 all_gather of 4 numbers",
        ),
        (
            "subgroup",
            3,
            "Worker 1 waits in reduce (operation 1 of the group of workers 1 and 2); worker 2 has not arrived",
        ),
        ("message", 2, "Worker 0 waits in recv for worker 1"),
    ],
)
def test_a_hang_names_the_operation_its_group_and_who_has_not_arrived(tmp_path, how, workers, said):
    result = ended(tmp_path, how, workers=workers, hang_s=HANG_S)
    assert result.state == "hung"
    assert said in result.reason


def test_a_worker_that_never_joins_is_named(tmp_path):
    result = ended(tmp_path, "join", hang_s=HANG_S, timeout_s=12.0)
    assert result.state == "timeout"
    assert "Worker 0 waits in init_process_group; worker 1 has not joined" in result.reason


@pytest.mark.parametrize("how", ["destroyed", "raises"])
def test_a_training_goes_on_as_it_would_have(tmp_path, how):
    result = ended(tmp_path, how, "30", workers=3, steps=100)
    assert result.state == "ok", result.reason
    for worker in result.workers:
        assert worker.manifest["problems"] == []
        assert worker.samples[-1].k == 30
        assert not worker.samples[-1].unseen


def test_a_collective_that_raises_is_the_reason_and_no_hang(tmp_path):
    result = ended(tmp_path, "dies", hang_s=HANG_S)
    assert result.state == "crashed"
    assert "worker 1 of 2: TypeError" in result.reason


def test_a_worker_that_goes_on_takes_its_note_back(tmp_path):
    steps = [3]
    looked = Standstill(str(tmp_path), hang_s=0.4, steps=lambda: steps[0], number=lambda: 5)
    looked.start()
    note = tmp_path / "standing-5.json"
    wait_until(note.exists)
    assert json.loads(note.read_text())["steps"] == 3
    steps[0] = 4
    wait_until(lambda: json.loads(note.read_text())["quiet_s"] == 0.0)


def wait_until(true):
    until = time.monotonic() + 20.0
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)
