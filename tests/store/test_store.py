"""What is on disk is old or new, never half; and it comes back as it was."""

import json
import os
import shutil
import struct
import subprocess
import sys
from dataclasses import replace

import pytest

from paceline.core.errors import StudyError, StudyInUse
from paceline.plan.trials import plan_study
from paceline.records import Study, TrialResult, Workload
from paceline.store.atomic import write_json, write_text
from paceline.store.lock import locked
from paceline.store.paths import StudyFolder
from paceline.store.study_file import read_study, write_study
from paceline.store.trial_files import commit, prepare, read_results, remove_incomplete, set_aside_failed
from paceline.store.worker_files import failures, heartbeats, text_tail, written

HOSTILE = ("a b", "'\"", "$(touch x)", "`x`", "é漢\u2028", "\\", "\x7f\t\n", "", "#", "[x]", "{y}")
STUDY = Study(
    Workload("script", "my 'train'.py", HOSTILE, batch_flag="-b"),
    workers=(1, 2, 4),
    scaling=("weak", "strong"),
    per_worker_batch=(8, 16),
    vary=(("--lr", ("0.1", "$(x)")), ("-k", ("é",))),
    lr=0.1,
    budget_device_s=12.5,
    threads=2,
    directory="/some where",
)
TRIAL = plan_study(Study(Workload("script", "t.py", ("--x",)), vary=(("--v", ("é",)),))).trials[0]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "trials").mkdir()
    return StudyFolder(tmp_path)


@pytest.fixture
def agent(tmp_path_factory):
    package = tmp_path_factory.mktemp("code") / "some_agent"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "enter").mkdir()
    (package / "enter" / "sitecustomize_entry.py").write_text("entry = 1\n")
    return package


def test_a_study_comes_back_as_it_was_written(folder):
    write_study(folder.study_toml, STUDY)
    assert read_study(folder.study_toml) == STUDY


def test_nodes_come_back_and_count_the_workers(folder):
    asked = replace(STUDY, nodes=(1, 2), workers_per_node=(2,), workers=(2, 4))
    write_study(folder.study_toml, asked)
    assert read_study(folder.study_toml) == asked
    folder.study_toml.write_text('nodes = [2]\nworkers = [2]\n[workload]\nname = "t.py"\n')
    with pytest.raises(StudyError, match="leave out workers"):
        read_study(folder.study_toml)


def test_a_study_file_needs_only_a_workload(folder):
    folder.study_toml.write_text('[workload]\nname = "t.py"\n')
    assert read_study(folder.study_toml) == Study(Workload("script", "t.py"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = 1\nx = =", "line 2"),
        ("", "workload: Field required"),
        ('workers = [0]\n[workload]\nname = "t"', "workers.0"),
        ('wrokers = [1]\n[workload]\nname = "t"', "wrokers: Extra inputs"),
        ('format = 99\n[workload]\nname = "t"', "format"),
        ('timeout_s = nan\n[workload]\nname = "t"', "timeout_s"),
    ],
)
def test_a_wrong_study_file_is_refused_by_line_or_field(folder, text, said):
    folder.study_toml.write_text(text)
    with pytest.raises(StudyError, match=said):
        read_study(folder.study_toml)


def test_a_write_that_fails_leaves_the_old_text(folder, monkeypatch):
    write_text(folder.plan_json, "old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StudyError, match="No space left"):
        write_text(folder.plan_json, "new")
    assert folder.plan_json.read_text() == "old"
    assert [path.name for path in folder.root.iterdir() if path.name.endswith(".part")] == []


def test_letters_that_are_no_utf8_are_kept_in_json_and_refused_in_toml(folder):
    write_json(folder.plan_json, {"name": "\udcff"})
    assert json.loads(folder.plan_json.read_bytes()) == {"name": "\udcff"}
    with pytest.raises(StudyError, match=r"workload.name: it is not UTF-8"):
        write_study(folder.study_toml, Study(Workload("script", "\udcff.py")))


def test_nan_is_never_written(folder):
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(folder.plan_json, {"x": float("nan")})


def test_a_second_desk_is_told_who_holds_the_study(folder):
    code = (
        "import sys; from pathlib import Path; from paceline.store.lock import locked\n"
        "from paceline.store.paths import StudyFolder\n"
        "with locked(StudyFolder(Path(sys.argv[1]))): print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(folder.root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StudyInUse, match=f"process {holder.pid} on"), locked(folder):
            pass
        holder.kill()
    with locked(folder):  # the kernel has freed it, although its holder could not
        pass


def test_a_trial_is_complete_from_its_commit_on(folder, agent):
    path = prepare(folder, TRIAL, packages=[agent])
    assert sorted(p.name for p in (path / "agent").iterdir()) == ["sitecustomize.py", "some_agent"]
    assert read_results(folder) == ()
    result = TrialResult(TRIAL, "crashed", "worker 0 of 1: boom", (), 1.5, "tail")
    result = commit(folder, result, started="2026-01-01")
    assert read_results(folder) == (result,)
    assert remove_incomplete(folder) == ()


def test_what_was_never_committed_is_removed(folder, agent):
    prepare(folder, TRIAL, packages=[agent])
    assert remove_incomplete(folder) == (TRIAL.id,)
    assert not folder.trial(TRIAL.id).exists()


def test_failed_trials_are_set_aside_not_lost(folder, agent):
    for _ in range(2):
        prepare(folder, TRIAL, packages=[agent])
        commit(folder, TrialResult(TRIAL, "oom", "x", (), 1.0), started="now")
        set_aside_failed(folder, read_results(folder))
    assert read_results(folder) == ()
    assert len(list((folder.root / "failed").iterdir())) == 2


def test_a_copy_of_a_trial_is_not_counted_twice(folder, agent):
    path = prepare(folder, TRIAL, packages=[agent])
    commit(folder, TrialResult(TRIAL, "ok", None, (), 1.0), started="2026-01-01")
    shutil.copytree(path, path.with_name("backup"))
    with pytest.raises(StudyError, match=r"trial\.json says run .* counted twice"):
        read_results(folder)


def test_a_study_that_was_moved_meanwhile_is_said_to_be_gone(tmp_path):
    with pytest.raises(StudyError, match=r"cannot write .* is not there, or was moved meanwhile"):
        write_text(tmp_path / "moved" / "plan.json", "{}")


def test_a_damaged_commit_mark_is_named(folder):
    path = folder.trial("w1-1")
    path.mkdir()
    (path / "trial.json").write_text('{"state": "fine"}')
    with pytest.raises(StudyError, match=r"w1-1.trial\.json is damaged"):
        read_results(folder)


def test_a_commit_mark_with_a_count_that_is_none_is_damaged(folder, agent):
    path = prepare(folder, TRIAL, packages=[agent]) / "trial.json"
    commit(folder, TrialResult(TRIAL, "ok", None, (), 1.0), started="2026-01-01")
    path.write_text(path.read_text().replace('"workers": 1', '"workers": []'))
    with pytest.raises(StudyError, match=r"is damaged: .*is no int"):
        read_results(folder)


def write_worker(path, rank, *lines):
    text = [line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines]
    (path / f"worker-{rank}.jsonl").write_text("".join(text))


def test_worker_files_are_read_by_rank_and_a_cut_line_is_left_out(tmp_path):
    header = {"record": "header", "world": 11}
    step = {"record": "step", "k": 2, "end_s": 9.0, "step_s": 0.1, "exchanges": [[0.01, 0.02]]}
    end = {"record": "end", "reason": "enough", "steps": 2}
    write_worker(tmp_path, 10, header, {**step, "k": 1, "step_s": None}, step, '{"record": "st')
    write_worker(tmp_path, 2, header, {**step, "loss": "nan"}, end)
    (tmp_path / "manifest-10.json").write_text('{"device": "cpu"}')
    found = written(tmp_path)
    second, tenth = found.records
    assert (second.rank, tenth.rank, tenth.world) == (2, 10, 11)
    assert [s.k for s in tenth.samples] == [2]
    assert tenth.samples[0].exchanges[0].overlap_s == 0.02
    assert tenth.manifest == {"device": "cpu"}
    assert second.samples[0].loss != second.samples[0].loss
    assert [(e.rank, e.reason) for e in found.endings] == [(2, "enough")]


def test_heartbeats_and_failures_are_read_and_garbage_is_not(tmp_path):
    (tmp_path / "heartbeat-0").write_bytes(struct.pack("<QdQQ", 7, 1.5, 4242, 1))
    (tmp_path / "heartbeat-1").write_bytes(b"short")
    (tmp_path / "exit-1.json").write_text(json.dumps({"type": "E", "message": "m", "step": 3, "oom": True}))
    (tmp_path / "exit-2.json").write_text("{")
    (beat,), (failure,) = heartbeats(tmp_path), failures(tmp_path)
    assert (beat.rank, beat.steps, beat.pid, beat.phase) == (0, 7, 4242, 1)
    assert (failure.rank, failure.step, failure.oom) == (1, 3, True)


def test_the_tail_of_a_log_is_its_end(tmp_path):
    (tmp_path / "log").write_text("a" * 100 + "end")
    assert text_tail(tmp_path / "log", most=4) == "aend"
    assert text_tail(tmp_path / "none") == ""


def test_a_copied_study_has_its_own_tag(tmp_path):
    assert StudyFolder(tmp_path / "a").tag != StudyFolder(tmp_path / "b").tag
    assert StudyFolder(tmp_path / "a").tag == StudyFolder(tmp_path / "x" / ".." / "a").tag
