"""Where numbers come from: the code that was measured, as git knows it, and what workers said of themselves."""

import shutil
import subprocess

import pytest

from paceline.records import Point, Study, Trial, TrialResult, WorkerRecord, Workload
from paceline.source.provenance import source_of
from paceline.store import git_state
from paceline.store.git_state import git_states, note_git_state
from paceline.store.paths import StudyFolder

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="no git")


@pytest.fixture
def repository(tmp_path):
    """A repository with one committed script, and a study of it elsewhere."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("print(1)\n")
    name = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "train.py"], [*name, "commit", "-qm", "one"]):
        subprocess.run(["git", "-C", str(code), *words], check=True)
    (tmp_path / "s").mkdir()
    return code, StudyFolder(tmp_path / "s"), Study(Workload("script", "train.py"), directory=str(code))


@needs_git
def test_every_version_that_was_measured_is_noted_once(repository):
    code, folder, study = repository
    head = subprocess.check_output(["git", "-C", str(code), "rev-parse", "HEAD"], text=True).strip()
    note_git_state(folder, study)
    note_git_state(folder, study)
    assert git_states(folder) == [head]
    (code / "train.py").write_text("print(2)\n")
    (code / "new.txt").write_text("git does not follow this\n")
    note_git_state(folder, study)
    assert git_states(folder) == [head, f"{head}, with changes that are not committed"]


@needs_git
@pytest.mark.parametrize("workload", [Workload("workload", "mnist"), Workload("script", "gone/train.py")])
def test_what_has_no_folder_of_its_own_has_no_version(repository, workload):
    _, folder, study = repository
    note_git_state(folder, Study(workload, directory=study.directory))
    assert git_states(folder) == []


def test_without_git_or_a_repository_nothing_is_noted_and_nothing_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    folder, study = StudyFolder(tmp_path), Study(Workload("script", "train.py"), directory=str(tmp_path))
    note_git_state(folder, study)
    monkeypatch.setenv("PATH", "/nowhere")
    note_git_state(folder, study)
    (tmp_path / "source.json").write_text("[]")
    assert git_states(folder) == []


def test_git_that_hangs_costs_seconds_and_no_study(tmp_path, monkeypatch):
    (tmp_path / "git").write_text("#!/bin/sh\nsleep 60\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(git_state, "_LONGEST_S", 0.3)
    note_git_state(StudyFolder(tmp_path), Study(Workload("module", "m"), directory=str(tmp_path)))
    assert git_states(StudyFolder(tmp_path)) == []


def test_what_workers_said_is_listed_once_and_what_differs_by_launch_is_left_out(tmp_path):
    manifest = {
        "host": "a",
        "parameters": 10,
        "gradient_bytes": 20,
        "environment": {"OMP_NUM_THREADS": "2", "RANK": "0", "MASTER_PORT": "1", "LOCAL_WORLD_SIZE": "2"},
        "loader": {"dataset_size": 60000, "workers": 4},
    }
    workers = tuple(WorkerRecord(i, 2, (), {**manifest, "host": host}) for i, host in enumerate("ab"))
    result = TrialResult(Trial("w2-1", Point("w2", 2), 1, ()), "ok", None, workers, 1.0)
    source = source_of(StudyFolder(tmp_path), Study(Workload("workload", "mnist")), [result])
    assert source["workers"]["host"] == ["a", "b"]
    assert source["environment"] == {"OMP_NUM_THREADS": ["2"]}
    assert source["problem"]["gradient_precision"] == ["16 bit"]
    assert source["problem"]["samples_in_data_set"] == ["60000"]
    assert "optimizer" not in source["problem"]
