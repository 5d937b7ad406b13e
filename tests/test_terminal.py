"""Text that fits where it is read."""

from __future__ import annotations

import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cli.answer import finding_lines
from paceline.cli.main import exit_code
from paceline.cli.table_text import advice_text
from paceline.cli.terminal import fitted, folded_table
from paceline.records import Finding

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
    same = [Finding("few-launches", "doubt", f"w{n}: 1 launch only", hint="more") for n in (1, 2, 4)]
    assert list(finding_lines(same, folder="s")) == [
        "DOUBT  w1, w2, w4: 1 launch only [few-launches]",
        "       next: more",
    ]


def test_of_many_points_the_first_are_named_and_the_others_counted():
    same = [Finding("few-launches", "doubt", f"w{n}: 1 launch only") for n in range(1, 9)]
    assert next(finding_lines(same, folder="s")) == (
        "DOUBT  w1, w2, w3, w4 and 4 more: 1 launch only [few-launches]"
    )


def test_findings_in_other_words_are_shown_twice_and_counted():
    differ = [Finding("foreign-cpu", "doubt", f"w{n}: others took {n}%") for n in (1, 2, 4, 8)]
    lines = list(finding_lines(differ, folder="s"))
    assert lines[:2] == ["DOUBT  w1: others took 1% [foreign-cpu]", "DOUBT  w2: others took 2% [foreign-cpu]"]
    assert lines[2] == "       … and at 2 more points (--json shows all)"


def test_a_message_without_a_point_stays_as_it_is():
    plain = [Finding("lr-unscaled", "note", "the batch grows from 32 to 64: accuracy may change")]
    assert list(finding_lines(plain, folder="s")) == [
        "note   the batch grows from 32 to 64: accuracy may change [lr-unscaled]"
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

    monkeypatch.setattr("paceline.cli.schema.schema", refused)
    assert exit_code(["schema"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"paceline: {said}")
    assert "None" not in error
