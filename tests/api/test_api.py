"""Paceline in Python: the same answers as the command line, from paths, frames and rows, shown by a notebook."""

import doctest
import json
import subprocess
import sys
from pathlib import Path

import pytest

import paceline
from paceline.api import frames, result, verbs
from paceline.core.errors import PacelineError, TableError, UsageError
from paceline.report.charts import draw

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "recorded" / "mnist-1-2"
ROWS = [{"gpus": n, "epoch_s": 96 / n + 4} for n in (1, 2, 4)]
TABLE = "gpus,epoch_s\n" + "".join(f"{row['gpus']},{row['epoch_s']}\n" for row in ROWS)
needs_pictures = pytest.mark.skipif(not draw.can_draw(), reason="vl-convert is not installed")


@pytest.fixture
def found():
    return paceline.load(RECORDED)


@pytest.mark.parametrize("module", [result, verbs])
def test_every_example_in_the_docstrings_holds(module, monkeypatch):
    monkeypatch.chdir(ROOT)
    tried = doctest.testmod(module, extraglobs={"load": paceline.load})
    assert tried.failed == 0
    assert tried.attempted > 5


def test_everything_offered_exists_and_is_said_to():
    assert {name for name in dir(paceline) if hasattr(paceline, name)} == set(paceline.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'studdy'"):
        _ = paceline.studdy


def test_importing_the_package_imports_none_of_it():
    said = "import sys, paceline; print([m for m in sys.modules if m.startswith('paceline.')])"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_python_and_the_command_line_say_the_same(found):
    done = subprocess.run(
        [sys.executable, "-m", "paceline", "analyze", str(RECORDED), "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    said = json.loads(done.stdout)
    assert json.loads(json.dumps(found.to_dict())) | {"source": None} == said | {"source": None}


def test_a_table_is_a_path_rows_or_text(tmp_path):
    path = tmp_path / "times.csv"
    path.write_text(TABLE)
    one = paceline.analyze(ROWS)
    for source in (path, str(path), TABLE):
        other = paceline.analyze(source)
        assert (other.verdict, other.points) == (one.verdict, one.points)


def test_a_frame_goes_in_and_out():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    one = paceline.analyze(pandas.DataFrame(ROWS))
    assert one.verdict == paceline.analyze(ROWS).verdict
    frame = one.to_dataframe()
    assert list(frame["workers"]) == [1, 2, 4]
    assert list(frame["epoch_s"]) == [100, 52, 28]
    assert set(one.to_dataframe("recommendations")["goal"]) >= {"fastest", "cheapest"}


def test_without_pandas_and_polars_rows_are_offered(found, monkeypatch):
    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match="neither is installed") as problem:
        found.to_dataframe()
    assert "to_rows()" in problem.value.hint


def test_a_row_has_the_ends_of_every_interval_and_nothing_nested(found):
    row = found.to_rows()[1]
    assert row["setting"] == "w2"
    assert row["step_s_low"] < row["step_s"] < row["step_s_high"]
    assert row["mfu_ratio"] is None
    assert row["mfu_ratio_low"] is None
    assert {type(value) for value in row.values()} <= {str, int, float, bool, type(None)}


def test_a_result_can_be_asked_again():
    first = paceline.analyze(ROWS)
    asked = paceline.project(first, [8, 16])
    assert [one.workers for one in asked.projections] == [8, 16]
    assert asked.projections == paceline.project(ROWS, "8,16").projections
    assert paceline.advise(paceline.project(asked, 8), workers=8).recommendations


@needs_pictures
def test_a_figure_is_found_by_how_it_begins_and_saved_by_how_it_ends(found, tmp_path):
    picture = found.figure("speedup")
    assert picture.name == "speedup-weak"
    assert picture._repr_svg_().startswith("<svg")
    begins = {".svg": b"<svg", ".png": b"\x89PNG", ".pdf": b"%PDF"}
    for end, first in begins.items():
        assert picture.save(tmp_path / f"a{end}").read_bytes().startswith(first)
    with pytest.raises(UsageError, match="is no picture"):
        picture.save(tmp_path / "a.gif")
    with pytest.raises(UsageError, match="there is no figure 'sped'") as problem:
        found.figure("sped")
    assert "speedup-weak" in problem.value.hint


@needs_pictures
def test_a_notebook_shows_the_first_screen_without_any_script(found):
    shown = found._repr_html_()
    assert "Use 2 workers" in shown
    assert shown.count("<svg") == 2
    assert "<script" not in shown
    assert "<html" not in shown


def test_hostile_words_of_a_table_are_shown_and_not_obeyed():
    rows = [{"gpus": n, "epoch_s": 100 / n, "mode": "<img src=x onerror=alert(1)>"} for n in (1, 2)]
    assert "<img" not in paceline.analyze(rows)._repr_html_()


def test_the_page_is_that_of_the_command_line(found, tmp_path):
    assert found.report(tmp_path / "r.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: paceline.load("nowhere"), "nowhere"),
        (lambda: paceline.analyze(3), "a int is no table"),
        (lambda: paceline.analyze([]), "a list is no table"),
        (lambda: paceline.project(ROWS, 0), "'0' in '0' is not a range"),
        (lambda: paceline.project(ROWS, 8, probe="p"), "a probe belongs to"),
        (lambda: paceline.study("train.py", worker=2), "study has no option 'worker' in Python"),
        (lambda: paceline.study("train.py", on="slurm"), "study has no option 'on' in Python"),
        (lambda: paceline.study("nowhere.py", workers=1), "there is no script"),
        (lambda: paceline.load(RECORDED).to_rows("sums"), "'sums' is no table of a result"),
    ],
)
def test_what_cannot_be_is_said_with_one_thing_to_do(call, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PacelineError) as problem:
        call()
    assert said in problem.value.message
    assert problem.value.hint


def test_frames_are_texts_of_tables():
    assert frames.table_text_of(ROWS) == "gpus,epoch_s\n1,100.0\n2,52.0\n4,28.0\n"
    with pytest.raises(TableError):
        frames.table_text_of(object())


def test_a_study_runs_and_the_same_call_goes_on(tmp_path, capsys):
    options = {
        "workers": [1],
        "repeats": 1,
        "steps": 10,
        "warmup": 2,
        "out": tmp_path / "s",
        "no_flops": True,
    }
    script = ROOT / "tests" / "scripts" / "alone.py"
    first = paceline.study(script, **options)
    assert [point.point.workers for point in first.points] == [1]
    assert capsys.readouterr().out == ""
    again = paceline.study(script, **options)
    assert again.points == first.points
    assert "every run is complete" in capsys.readouterr().err
    assert paceline.load(tmp_path / "s").points == first.points
