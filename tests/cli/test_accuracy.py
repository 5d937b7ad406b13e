"""`paceline study --to-accuracy`: trainings over seeds from the command line, compared, resumed, refused."""

import json

import pytest

from tests.support.desk import desk

TINY = """
import argparse
import torch
from paceline_agent import mark

flags = argparse.ArgumentParser()
flags.add_argument("--gain", type=float, default=0.1)
flags.add_argument("--seed", type=int, default=0)
flags.add_argument("--memory", type=int, default=0)
given = flags.parse_args()
network = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
held = torch.ones(given.memory * 250_000)
for epoch in range(1, 6):
    for _ in range(4):
        optimizer.zero_grad()
        loss = network(torch.ones(2, 4)).square().mean()
        (loss * float("nan") if given.gain < 0 and epoch == 2 else loss).backward()
        optimizer.step()
    mark("val_accuracy", given.gain * epoch + 0.001 * given.seed)
print("came to its own end")
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two configurations of a script, two seeds: one reaches 0.5 at its third epoch, one diverges."""
    folder = tmp_path_factory.mktemp("accuracy")
    (folder / "tiny.py").write_text(TINY)
    words = ("study", "--to-accuracy", "0.5", "--seeds", "2", "--seed-flag", "--seed", "--workers", "1")
    size = ("--steps", "10", "--warmup", "2", "--threads", "1", "--out", "s", "--json")
    done = desk(*words, *size, "--vary", "gain=0.2,-1", "tiny.py", cwd=folder, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder, done


def test_configurations_are_compared_over_seeds_the_fastest_first(study):
    _, done = study
    found = json.loads(done.stdout)["convergence"]
    assert (found["metric"], found["target"], found["rises"]) == ("val_accuracy", 0.5, True)
    fast, *lost = found["comparisons"]
    assert fast["traits"] == ["1 worker", "global batch 2", "gain=0.2"]
    assert (fast["reached"], fast["epochs_to_target"]["value"]) == (2, 3.0)
    assert [(row["traits"], row["reached"], row["diverged"]) for row in lost] == [
        (["1 worker", "global batch 2", "gain=-1"], 0, 2)
    ]


def test_every_training_has_its_seed_and_its_curve(study):
    _, done = study
    curves = {(c["point"], c["seed"]): c["metric"] for c in json.loads(done.stdout)["convergence"]["curves"]}
    assert curves["w1-gain=0.2", 1][:3] == pytest.approx([0.201, 0.401, 0.601])
    assert curves["w1-gain=0.2", 2][:3] == pytest.approx([0.202, 0.402, 0.602])


def test_a_training_ends_where_its_target_is_reached(study):
    folder, _ = study
    ended = (folder / "s" / "trials" / "w1-gain=0.2-1" / "out-0.log").read_text()
    whole = (folder / "s" / "trials" / "w1-gain=-1-1" / "out-0.log").read_text()
    assert "came to its own end" not in ended
    assert "came to its own end" in whole


def test_a_study_to_a_target_resumes_and_refuses_another_target(study):
    folder, _ = study
    again = desk("plan", "s", cwd=folder)
    assert "every run is complete" in again.stdout
    more = desk("plan", "s", "--seeds", "3", cwd=folder)
    assert "w1-gain=0.2: 1 training to the script's own end" in more.stdout
    assert "gain=-1" not in more.stdout  # it diverged twice
    other = desk("plan", "s", "--to-accuracy", "0.9", cwd=folder)
    assert other.returncode == 1
    assert "made with --to-accuracy 0.5; 0.9 would not be comparable" in other.stderr


def test_the_terminal_shows_the_verdict_and_every_configuration(study):
    folder, _ = study
    shown = desk("show", "s", cwd=folder).stdout
    assert shown.startswith("Fastest to val_accuracy ≥ 0.5: 1 worker, global batch 2, gain=0.2, in ")
    assert "1 of 2 configurations did not reach it on every seed, 1 diverged." in shown
    assert "0 of 2, 2 diverged" in shown


def test_what_a_script_cannot_be_told_is_refused_before_anything_starts(tmp_path):
    (tmp_path / "tiny.py").write_text(TINY)
    epochs = desk("study", "--to-accuracy", "0.5", "--epochs", "3", "tiny.py", cwd=tmp_path)
    assert "--epochs is our workloads'" in epochs.stderr
    rule = desk("study", "--to-accuracy", "0.5", "--lr-rule", "sqrt", "tiny.py", cwd=tmp_path)
    assert "try: --lr 0.1 --lr-flag --lr" in rule.stderr
    lost = desk("study", "--lr-rule", "sqrt", "tiny.py", cwd=tmp_path)
    assert "no goal is named" in lost.stderr
    word = desk("study", "--to-accuracy", "0.5", "--lr-rule", "cubic", "mnist", cwd=tmp_path)
    assert "--lr-rule none,linear,sqrt,adascale" in word.stderr
    pattern = desk("study", "--to-accuracy", "0.5", "--metric", "(?:acc) [0-9]", "tiny.py", cwd=tmp_path)
    assert "has 0 groups" in pattern.stderr
    assert {done.returncode for done in (epochs, rule, lost, word, pattern)} == {1}
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.py"]


def test_memory_beyond_a_limit_is_out_of_memory_and_below_it_is_not(tmp_path):
    (tmp_path / "tiny.py").write_text(TINY)
    words = ("study", "--workers", "1", "--memory-limit", "300MB", "--vary", "memory=1,600", "--threads", "1")
    size = ("--steps", "10", "--warmup", "2", "--repeats", "1", "--json")
    done = desk(*words, *size, "tiny.py", cwd=tmp_path, timeout=300)
    states = {point["id"]: point["state"] for point in json.loads(done.stdout)["points"]}
    assert states == {"w1-memory=1": "ok", "w1-memory=600": "oom"}
