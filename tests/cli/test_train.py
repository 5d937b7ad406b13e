"""`paceline train`: a training from its first step to its last, and what is said about it."""

import json

import pytest

from paceline.converge.summary import Evaluation, reached_at, training_summary
from tests.support.desk import desk

TINY = """
import torch
from paceline_agent import mark

network = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
for epoch in range(5):
    for _ in range(4):
        optimizer.zero_grad()
        network(torch.ones(2, 4)).square().mean().backward()
        optimizer.step()
    mark("val_accuracy", 0.5 + 0.1 * epoch)
mark("unknown", float("nan"))
"""


def test_a_workload_trains_to_its_end_is_resumed_and_refuses_to_be_overwritten(tmp_path):
    words = ("train", "mnist", "--workers", "2", "--threads", "1", "--out", "t", "--json", "--epochs", "2")
    done = desk(*words, "--", "--max-steps", "12", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["asked"]["generated"] is True
    assert said["asked"]["global_batch"] == 128
    assert said["steps"] == 12
    written = json.loads((tmp_path / "t" / "metrics.jsonl").read_text().splitlines()[1])
    assert (said["metric"], said["last"]) == ("val_accuracy", written["val_accuracy"])
    assert said["peak_memory_bytes"] > 1e8
    assert "not on MNIST" in done.stderr
    assert "epoch 1: train_loss" in done.stderr
    again = desk(*words, cwd=tmp_path)
    assert again.returncode == 1
    assert "holds a training already" in again.stderr
    resumed = desk(*words, "--resume", "--", "--max-steps", "20", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert [row["metrics"]["step"] for row in json.loads(resumed.stdout)["curve"]] == [12, 20]


def test_a_script_is_trained_and_its_marks_are_the_curve(tmp_path):
    (tmp_path / "tiny.py").write_text(TINY)
    done = desk("train", "tiny.py", "--target", "0.75", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert [row["metrics"]["val_accuracy"] for row in said["curve"]] == pytest.approx(
        [0.5, 0.6, 0.7, 0.8, 0.9]
    )
    assert said["best"] == 0.9
    assert said["steps"] == 20
    assert 0 < said["time_to_target_s"] < 60


def test_marks_without_a_trial_do_nothing_and_never_raise(capsys):
    from paceline_agent import mark

    mark("val_accuracy", 0.5)
    mark("val_accuracy", "not a number")
    assert capsys.readouterr().out == ""


def test_what_cannot_be_is_refused_before_any_worker_starts(tmp_path):
    done = desk("train", "mnist", "--workers", "3", "--per-worker-batch", "4001", cwd=tmp_path)
    assert done.returncode == 1
    assert "one step of 3 workers takes 12003 samples and there are 12000" in done.stderr
    assert "try: --batch-size 4000" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_flags_of_our_workloads_are_not_given_to_a_script(tmp_path):
    (tmp_path / "tiny.py").write_text(TINY)
    done = desk("train", "tiny.py", "--lr-rule", "sqrt", cwd=tmp_path)
    assert done.returncode == 1
    assert "--lr-rule: Paceline's workloads understand this" in done.stderr


# ---------------------------------------------------------------- the summary, by hand


def history(*values):
    return [Evaluation(epoch, 10.0 * epoch, {"val_accuracy": v}) for epoch, v in enumerate(values, start=1)]


def test_the_time_to_a_target_is_that_of_the_first_evaluation_that_reached_it():
    assert reached_at(history(0.5, 0.8, 0.7, 0.9), "val_accuracy", target=0.8, rises=True) == 20.0
    assert reached_at(history(0.5, 0.6), "val_accuracy", target=0.8, rises=True) is None
    assert reached_at(history(0.5, 0.2), "val_accuracy", target=0.3, rises=False) == 20.0


def test_a_training_that_says_nothing_has_no_metric_and_no_plateau():
    usual = {"metric": None, "rises": True, "target": None, "global_batch": None}
    nothing = training_summary([], [], **usual)
    assert (nothing.last, nothing.plateau_epoch, nothing.still_rising, nothing.step_s) == (None,) * 4


def test_a_loss_that_falls_and_stays_has_its_plateau_where_it_stays():
    found = training_summary(
        history(1.0, 0.5, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1),
        [],
        metric="val_accuracy",
        rises=False,
        target=None,
        global_batch=8,
    )
    assert found.plateau_epoch.value == 3
    assert found.best == 0.1
    assert found.still_rising is False
