"""What a run left is what was measured, or the run is not used."""

import json
import shutil

import pytest

from paceline.analysis.study import study_analysis
from paceline.cli.main import exit_code
from paceline.core.errors import StudyError
from paceline.store.paths import StudyFolder
from paceline.store.study_file import read_study
from paceline.store.trial_files import commit, read_results, set_aside_failed
from tests.attack.chance import STUDY


def copied(tmp_path, *, sealed):
    """A recorded study; `sealed`: as this Paceline would have committed it."""
    folder = StudyFolder(tmp_path / "s")
    shutil.copytree(STUDY, folder.root)
    for result in read_results(folder) if sealed else ():
        commit(folder, result, started=result.started)
    return folder


def found(folder):
    """The states of the trials and the findings about their files."""
    results = read_results(folder)
    analysis = study_analysis(read_study(folder.study_toml), results, {})
    told = [f for f in analysis.findings if f.id in ("damaged-run", "incomplete-run")]
    return {r.trial.id: r.state for r in results if r.state != "ok"}, told, analysis


@pytest.mark.parametrize("sealed", [True, False])
def test_a_whole_study_has_nothing_to_say_of_its_files(tmp_path, sealed):
    assert found(copied(tmp_path, sealed=sealed))[:2] == ({}, [])


@pytest.mark.parametrize("name", ["worker-1.jsonl", "manifest-0.json", "out-0.log"])
@pytest.mark.parametrize("how", ["a digit", "cut", "gone"])
def test_a_file_that_changed_is_named_and_its_run_is_not_used(tmp_path, name, how):
    folder = copied(tmp_path, sealed=True)
    path = folder.trial("w2-1") / name
    content = path.read_bytes()
    half = len(content) // 2
    path.write_bytes(
        content[:half] + (bytes([content[half] ^ 1]) + content[half + 1 :] if how == "a digit" else b"")
    )
    if how == "gone":
        path.unlink()
    states, (told,), analysis = found(folder)
    assert states == {"w2-1": "damaged"}
    assert told.level == "void"
    assert f"w2-1: {name}" in told.message
    assert [point.trials for point in analysis.points] == [3, 2]


def test_a_digit_of_the_commit_mark_itself_is_seen(tmp_path):
    folder = copied(tmp_path, sealed=True)
    mark = folder.trial("w1-1") / "trial.json"
    wall = json.loads(mark.read_text())["wall_s"]
    mark.write_text(mark.read_text().replace(f"{wall}", f"{wall + 1}"))
    states, (told,), _ = found(folder)
    assert states == {"w1-1": "damaged"}
    assert "trial.json is not as it was written" in told.message


def test_a_log_that_grew_since_is_as_it_was_committed(tmp_path):
    folder = copied(tmp_path, sealed=True)
    with open(folder.trial("w1-1") / "out-0.log", "a") as file:
        file.write("late")
    assert found(folder)[:2] == ({}, [])


def test_a_damaged_run_is_set_aside_like_one_that_failed(tmp_path):
    folder = copied(tmp_path, sealed=True)
    (folder.trial("w2-1") / "worker-0.jsonl").unlink()
    assert [r.trial.id for r in set_aside_failed(folder, read_results(folder))].count("w2-1") == 0
    assert (folder.root / "failed" / "w2-1.1").is_dir()


def test_of_an_older_run_lines_that_cannot_be_read_and_missing_files_are_said(tmp_path):
    folder = copied(tmp_path, sealed=False)
    path = folder.trial("w2-1") / "worker-0.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:5], "{", "[1]", *lines[7:]]) + "\n")
    (folder.trial("w2-2") / "worker-1.jsonl").unlink()
    states, told, _ = found(folder)
    assert states == {}
    assert [f.level for f in told] == ["doubt", "doubt"]
    assert "2 lines of worker-0.jsonl cannot be read" in told[0].message
    assert "worker-1.jsonl is missing" in told[1].message


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{}", "[]", '{"format": ' + "9" * 400 + "}", '{"format": 1e999}']
)
def test_a_commit_mark_that_is_none_is_an_error_that_names_it(tmp_path, capsys, text):
    folder = copied(tmp_path, sealed=True)
    (folder.trial("w2-1") / "trial.json").write_text(text)
    with pytest.raises(StudyError, match=r"trial\.json"):
        read_results(folder)
    assert exit_code(["show", str(folder.root)]) == 1
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("key", ["workers", "nodes"])
def test_a_commit_mark_that_nobody_could_have_run_is_an_error_that_names_it(tmp_path, capsys, key):
    """A digit that flips to 0 in an older study, which has no digests."""
    folder = copied(tmp_path, sealed=False)
    path = folder.trial("w2-1") / "trial.json"
    data = json.loads(path.read_text())
    data["trial"]["point"][key] = 0
    path.write_text(json.dumps(data))
    with pytest.raises(StudyError, match=r"trial\.json"):
        read_results(folder)
    assert exit_code(["show", str(folder.root)]) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_a_study_in_which_everything_crashed_is_shown_with_the_exit_code_of_no_answer(tmp_path, capsys):
    folder = copied(tmp_path, sealed=False)
    assert exit_code(["show", str(folder.root)]) == 0
    for result in read_results(folder):
        path = folder.trial(result.trial.id) / "trial.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "state": "crashed", "reason": "boom"}))
    assert exit_code(["show", str(folder.root)]) == 2
    assert "gave a usable measurement" in capsys.readouterr().err


@pytest.mark.parametrize(
    "buckets", [[[1]], [1, 2], [["a", "b"]], [[1, None]], {"a": 1}, [[[], []]], [[1e400, 0.1]], [[]]]
)
def test_a_malformed_timeline_is_no_timeline(tmp_path, buckets):
    folder = copied(tmp_path, sealed=False)
    for trial in folder.trials.iterdir():
        for path in trial.glob("manifest-*.json"):
            data = json.loads(path.read_text())
            path.write_text(
                json.dumps({**data, "timeline": {"buckets": buckets, "backward_end_s": 0.1, "steps": 5}})
            )
    _, _, analysis = found(folder)
    assert [point.buckets for point in analysis.points] == [(), ()]
