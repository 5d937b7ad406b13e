"""Text that fits where it is read."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cli.main import exit_code
from paceline.cli.text.answer import analysis_text, finding_lines
from paceline.cli.text.bars import step_bars
from paceline.cli.text.table import advice_text
from paceline.cli.text.terminal import bold, fitted, folded_table, narrowed
from paceline.core.errors import StudyError
from paceline.records import Estimate, Finding, Profile
from paceline.store.study_file import newest_study
from tests.support.report_sample import FULL, WEAK

RECORDED = Path(__file__).parents[1] / "recorded" / "mnist-1-2"
HEADS = ["workers", "step ms", "samples/s", "efficiency", "state"]
ROWS = [[1, "34.7 (32.8-35.9)", "1843", "100%", "ok"], [2, "75.2", "1701", "46% (41-49%)", "ok"]]


@pytest.mark.parametrize("width", [40, 50, 60])
def test_a_table_is_folded_to_the_width_and_keeps_every_cell(width):
    text = folded_table(HEADS, ROWS, first=1, width=width)
    assert max(map(len, text.splitlines())) <= width
    assert all(str(cell) in text for row in ROWS for cell in row)
    assert all(table.split()[0] == "workers" for table in text.split("\n\n"))


def test_a_table_that_fits_or_goes_to_a_file_is_one():
    assert folded_table(HEADS, ROWS, first=1, width=None) == folded_table(HEADS, ROWS, first=1, width=200)
    assert "\n\n" not in folded_table(HEADS, ROWS, first=1, width=None)


@given(st.text(alphabet="ab ", max_size=200), st.integers(10, 80))
def test_a_fitted_line_loses_no_word(text, width):
    assert " ".join(fitted(text, width, indent=4)).split() == text.split()


def test_a_line_for_a_file_is_whole():
    assert list(fitted("a " * 300, None)) == ["a " * 300]


def test_what_is_said_of_several_points_in_the_same_words_is_said_once():
    same = [Finding("few-launches", "doubt", "only 1 run", hint="more", point=f"w{n}") for n in (1, 2, 4)]
    assert list(finding_lines(same, folder="s")) == [
        "WARNING  w1, w2, w4: only 1 run [few-launches]",
        "       next: more",
    ]


def test_of_many_points_the_first_are_named_and_the_others_counted():
    same = [Finding("few-launches", "doubt", "only 1 run", point=f"w{n}") for n in range(1, 9)]
    assert next(finding_lines(same, folder="s")) == (
        "WARNING  w1, w2, w3, w4 and 4 more: only 1 run [few-launches]"
    )


def test_findings_in_other_words_are_shown_twice_and_counted():
    differ = [Finding("foreign-cpu", "doubt", f"others took {n}%", point=f"w{n}") for n in (1, 2, 4, 8)]
    lines = list(finding_lines(differ, folder="s"))
    assert lines[:2] == [
        "WARNING  w1: others took 1% [foreign-cpu]",
        "WARNING  w2: others took 2% [foreign-cpu]",
    ]
    assert lines[2] == "       … and at 2 more settings (--json shows all)"


def test_a_message_without_a_point_stays_as_it_is():
    plain = [Finding("lr-unscaled", "note", "the batch grows from 32 to 64: accuracy may change")]
    assert list(finding_lines(plain, folder="s")) == [
        "INFO     the batch grows from 32 to 64: accuracy may change [lr-unscaled]"
    ]


def test_no_advice_has_no_conditions():
    assert advice_text(()) == ""


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (OSError(28, "No space left on device", "s/plan.json"), "s/plan.json: No space left on device"),
        (
            shutil.Error([("a.py", "s/a.py", "[Errno 28] No space left on device")]),
            "s/a.py: No space left on device\n  try: free space",
        ),
        (OSError("the disk has gone"), "the system: the disk has gone"),
    ],
)
def test_what_the_system_refused_is_said(problem, said, monkeypatch, capsys):
    def refused() -> None:
        raise problem

    monkeypatch.setattr("paceline.cli.verbs.schema.schema", refused)
    assert exit_code(["schema"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"paceline: {said}")
    assert "None" not in error


def shown(analysis, *, width=80, brief=True):
    return analysis_text(analysis, folder=Path("s"), width=width, brief=brief)


def test_the_end_of_a_study_fits_80_columns_and_keeps_the_batch_where_it_varies():
    text = shown(replace(FULL, points=WEAK))
    assert max(map(len, text.splitlines())) <= 80
    assert max(map(len, shown(FULL).splitlines())) <= 80  # with configurations that were trained
    heads = next(line for line in text.splitlines() if "workers" in line and "step ms" in line).split("  ")
    assert {"batch", "speed-up", "efficiency"} <= {head.strip() for head in heads}
    assert "memory" not in text
    assert "memory" in shown(FULL, width=200)


def test_optional_columns_go_in_their_order_and_only_as_many_as_must():
    heads, rows = ["workers", "a", "b", "speed-up"], [["1", "xxxxxxxx", "yyyyyyyy", "1.00"]]
    assert narrowed(heads, rows, optional=("b", "a"), width=80) == [0, 1, 2, 3]
    assert narrowed(heads, rows, optional=("b", "a"), width=30) == [0, 1, 3]
    assert narrowed(heads, rows, optional=("b", "a"), width=10) == [0, 3]
    assert narrowed(heads, rows, optional=("b", "a"), width=None) == [0, 1, 2, 3]


def test_three_kinds_of_findings_are_shown_the_worst_first_and_the_others_are_counted():
    kinds = [("note", "a"), ("note", "b"), ("doubt", "c"), ("void", "d"), ("note", "e")]
    many = replace(FULL, findings=tuple(Finding(kind, level, f"about {kind}") for level, kind in kinds))
    lines = [line for line in shown(many).splitlines() if line.startswith(("ERROR", "WARNING", "INFO"))]
    assert [line.split()[0] for line in lines] == ["ERROR", "WARNING", "INFO"]
    assert "… and 2 more: paceline show s --all" in shown(many)
    assert all(f"about {kind}" in shown(many, brief=False) for _, kind in kinds)


@pytest.mark.parametrize(
    ("terminal", "environment", "coloured"),
    [(True, {}, True), (False, {}, False), (True, {"NO_COLOR": "1"}, False), (True, {"TERM": "dumb"}, False)],
)
def test_a_verdict_is_bold_on_a_terminal_that_shows_it(terminal, environment, coloured, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    assert (bold("Use 2", 32) == "Use 2") == (not coloured)


def test_the_verdict_of_a_study_arrives_in_colour_and_its_table_has_bars(monkeypatch, capsys):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert exit_code(["show", str(RECORDED)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("\x1b[1;32mUse 2 workers")
    assert "u001b" not in out  # a guard that shows control characters must not show ours
    assert "░" in out
    lines = [re.sub("\x1b[^m]*m", "", line) for line in out.splitlines() if not line.startswith("Study: ")]
    assert max(map(len, lines)) <= 80


def test_a_bar_is_as_long_as_its_step_and_as_cut_as_its_parts():
    half = Profile(WEAK[0].point, "ok", None, step_s=Estimate(0.5), compute_s=Estimate(0.5))
    whole = replace(
        half, step_s=Estimate(1.0), compute_s=Estimate(0.5), straggle_s=Estimate(0.25), wire_s=Estimate(0.25)
    )
    short, long = step_bars([half, whole])
    width = len(long)
    assert short.count("█") == width // 2
    assert [long.count(letter) / width for letter in "█▒░"] == pytest.approx([0.5, 0.25, 0.25], abs=0.08)
    assert step_bars([replace(half, compute_s=None)]) == [""]


def test_show_without_a_name_takes_the_study_that_was_written_to_last(tmp_path):
    for name, when in (("old", 100), ("new", 300), ("middle", 200)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "study.toml").touch()
        os.utime(tmp_path / name / "study.toml", (when, when))
    assert newest_study(tmp_path).name == "new"
    (tmp_path / "old" / "trials").mkdir()  # a run of it has ended now
    assert newest_study(tmp_path).name == "old"
    with pytest.raises(StudyError, match="no study here"):
        newest_study(tmp_path / "new" / "empty")


def test_a_mistyped_recipe_is_suggested(capsys):
    assert exit_code(["recipe", "run", "mnits"]) == 1
    assert "try: paceline recipe run mnist" in capsys.readouterr().err


def test_help_of_study_fits_a_screen_and_help_all_has_the_rest(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert exit_code(["study", "--help"]) == 0
    short = capsys.readouterr().out
    assert len(short.splitlines()) < 60
    assert "--help-all" in short
    assert exit_code(["study", "--help-all"]) == 0
    whole = capsys.readouterr().out
    assert "--partition" not in short
    assert "--partition" in whole
