"""Hostile words through every form of output: they are text, and the form around them stays what it was."""

import csv
import html.parser
import io
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from paceline.analysis.json_file import analysis_data, analysis_from
from paceline.cli.text.answer import analysis_text
from paceline.cli.text.guard import shown
from paceline.report.charts.tidy import tidy_csv
from paceline.report.handin.lab_text import lab_latex, lab_markdown
from paceline.report.handin.latex import latex_report
from paceline.report.handin.markdown import markdown_report
from paceline.report.handin.text import text_report
from paceline.report.page import page
from tests.attack.chance import SEED, attempts, chance, hostile
from tests.support.report_sample import FULL

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def spoken(words):
    """An Analysis in which every word of somebody else comes from `words`."""
    names = {p.point.id: words() for p in FULL.points}
    return replace(
        FULL,
        points=tuple(
            replace(
                p,
                reason=words(),
                point=replace(p.point, id=names[p.point.id], varied=(("--mode", words()),)),
            )
            for p in FULL.points
        ),
        findings=tuple(
            replace(f, message=words(), hint=words(), point=names.get(f.point)) for f in FULL.findings
        ),
        failures=tuple(replace(f, reason=words(), log_tail=words(), trial=words()) for f in FULL.failures),
        source={**FULL.source, "hosts": [words()], "command": words(), "table": words()},
        baseline=names.get(FULL.baseline),
    )


class _Tags(html.parser.HTMLParser):
    """What a browser would make elements and attributes of."""

    def __init__(self, text):
        super().__init__()
        self.seen = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, tuple(name for name, _ in attributes)))


def tags(text):
    return _Tags(text).seen


def cells(text):
    """The number of cells of every line of a Markdown table."""
    return [len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("|")]


def commands(text):
    """What LaTeX would carry out; characters that are named by their code are none."""
    return set(re.findall(r"\\([a-zA-Z@]+)", text))


@pytest.fixture
def no_pictures(monkeypatch):
    """As where vl-convert is not installed: hostile pictures are in tests/report/test_browser.py."""
    monkeypatch.setitem(sys.modules, "vl_convert", None)


def latex(analysis):
    return latex_report(analysis, figures=None) + lab_latex(analysis, figures=None)


def markdown(analysis):
    return f"{markdown_report(analysis)}\n\n{lab_markdown(analysis, figures=None)}"


def plain_words():
    number = iter(range(10**6))
    return lambda: f"word{next(number)}"


@pytest.mark.usefixtures("no_pictures")
def test_hostile_words_change_no_form(figures):
    rng, tame = chance("outputs"), spoken(plain_words())
    elements, known = (
        tags(page([("", tame)])),
        commands(latex(tame)),
    )
    for attempt in attempts(8, 5000):
        number = iter(range(10**6))  # no two words are the same: two names of one series would be one
        wild = spoken(lambda: f"{hostile(rng)}{next(number)}")  # noqa: B023 - called at once
        at = (SEED, attempt)
        assert tags(page([("", wild)])) == elements, at
        rows = list(csv.reader(io.StringIO(tidy_csv([("", wild)]))))
        assert len({len(row) for row in rows}) == 1, at
        assert not [cell for row in rows for cell in row if cell[:1] in ("=", "@", "+")], at
        assert cells(markdown(wild)) == cells(markdown(tame)), at
        assert "<script" not in markdown(wild), at
        extra = commands(latex(wild)) - known
        assert not [name for name in extra if not name.startswith(("text", "ldots", "pm", "mu"))], at
        for text in (text_report(wild), shown(analysis_text(wild, folder=tmp_name(rng)))):
            assert _CONTROL.search(text) is None, at
        assert analysis_from(analysis_data(wild)) == wild, at
    figures(
        f"outputs: {attempt + 1} analyses of hostile words through page, CSV, Markdown, LaTeX, text and JSON"
    )


def tmp_name(rng):
    """A study folder whose name is hostile too."""
    return Path("/") / hostile(rng).replace("/", "")
