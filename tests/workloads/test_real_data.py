"""What the workloads learn from real data. PACELINE_REAL_DATA names a folder with mnist/, fruit/ and steering/."""

import json
import os
from pathlib import Path

import pytest

from tests.support.desk import desk

DATA = os.environ.get("PACELINE_REAL_DATA", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not DATA, reason="PACELINE_REAL_DATA names no folder with mnist/, fruit/, steering/"),
]


def trained(workload, folder, *words):
    """The records of the metrics file after two workers have trained this to the end."""
    data = Path(DATA) / workload
    archive = next(data.glob("*.zip"), data)
    ended = desk("train", workload, "--workers", "2", "--data", archive, *words, cwd=folder, timeout=3500)
    assert ended.returncode == 0, ended.stderr[-2000:]
    lines = (folder / f"paceline-train-{workload}" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def best(records, name):
    return max(record[name] for record in records if name in record)


def test_two_workers_read_digits_with_985_in_1000_right_within_five_epochs(tmp_path):
    assert best(trained("mnist", tmp_path, "--epochs", "5"), "val_accuracy") >= 0.985


def test_fruit_is_told_apart_though_no_picture_has_a_copy_on_the_other_side(tmp_path):
    assert best(trained("fruit", tmp_path, "--epochs", "8"), "val_accuracy") >= 3 / 6


def test_steering_beats_the_mean_angle_and_ridge_regression_on_time_it_has_not_seen(tmp_path):
    words = ("--epochs", "20", "--", "--refit", "--batch-size", "16")
    last = [record for record in trained("steering", tmp_path, *words) if "val_mse" in record][-1]
    assert last["val_mse"] < min(last["mean_angle_mse"], last["ridge_mse"])
