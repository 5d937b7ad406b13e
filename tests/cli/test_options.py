"""What `study` and `plan` take is one record; what they read they read once."""

from collections import Counter
from pathlib import Path

import pytest

from paceline.cli.main import exit_code
from paceline.launch.replay import ReplayLauncher
from paceline.plan import trials
from paceline.records import Plan
from paceline.store import worker_files
from paceline.store.json_lines import json_lines

GOLDEN = Path(__file__).parents[1] / "golden"
RECORDED = Path(__file__).parents[1] / "recorded" / "mnist-1-2"
SMALL = ("--steps", "20", "--repeats", "3", "--out", "s", "t.py")


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """How often each worker file was parsed and a plan was made; the script in this folder is answered from records."""
    found = Counter()

    def parsed(path):
        found[str(path)] += 1
        return json_lines(path)

    def planned(*args, **fields):
        found["plan"] += 1
        return Plan(*args, **fields)

    monkeypatch.setattr(worker_files, "json_lines", parsed)
    monkeypatch.setattr(trials, "Plan", planned)
    monkeypatch.setattr("paceline.cli.measure.LocalLauncher", lambda: ReplayLauncher(RECORDED))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.py").write_text("")
    return found


@pytest.mark.parametrize("verb", ["study", "plan"])
def test_help_shows_what_it_showed(verb, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert exit_code([verb, "--help"]) == 0
    assert capsys.readouterr().out == (GOLDEN / f"{verb}-help.txt").read_text(), (
        f"where the change is meant: COLUMNS=80 paceline {verb} --help > tests/golden/{verb}-help.txt"
    )


def test_a_study_is_planned_once_and_reads_a_workers_file_once(counted, capsys):
    assert exit_code(["study", "--workers", "1,2", *SMALL]) == 0, capsys.readouterr().err
    files = {name: times for name, times in counted.items() if name != "plan"}
    assert len(files) == 3 * (1 + 2)
    assert set(counted.values()) == {1}


@pytest.mark.parametrize("verb", ["study", "show"])
def test_a_study_that_is_complete_is_read_once(verb, counted, capsys):
    assert exit_code(["study", "--workers", "1,2", *SMALL]) == 0
    counted.clear()
    assert exit_code([verb, "s"]) == 0, capsys.readouterr().err
    assert {times for name, times in counted.items() if name != "plan"} == {1}
    assert counted["plan"] <= 1


def test_a_wider_study_reads_what_it_had_and_what_is_new_once(counted, capsys):
    assert exit_code(["study", "--workers", "1", *SMALL]) == 0
    counted.clear()
    assert exit_code(["study", "--workers", "2", "s"]) == 0
    assert len(counted) == 3 * (1 + 2) + 1
    assert set(counted.values()) == {1}
