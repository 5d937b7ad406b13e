"""How Paceline speaks: no word that a reader would have to learn, no sentence of more than 25 words."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from paceline.analysis.table import table_analysis
from paceline.cli.text import table
from paceline.cli.text.answer import analysis_text
from paceline.records import Analysis
from paceline.report.handin import text
from paceline.report.handin.lab_text import lab_latex, lab_markdown
from paceline.report.handin.latex import latex_report
from paceline.report.handin.markdown import markdown_report
from paceline.report.page import page
from paceline.source.study import analysis_of_folder
from paceline.store.paths import StudyFolder
from paceline.store.study_file import read_study
from paceline.table.read import read_table
from tests.support.report_sample import FULL

ROOT = Path(__file__).parents[2]
RECORDED = sorted(path.parent for path in (ROOT / "tests" / "recorded").glob("*/study.toml"))
LABS = sorted((ROOT / "src" / "paceline" / "data" / "labs").glob("*.csv"))
LONGEST = 25  # words of a sentence
OLD = re.compile(
    r"\b(exposed|wires?|straggl\w+|foreseen|told apart|knee|pareto|VOID|DOUBT|dearer|"
    r"order of magnitude|holds both answers|contradict\w*|structures of equal|launch(es)?|trials?)\b"
)
# names of findings, rules and files are data; so is what a person typed
_NAMES = re.compile(
    r"\[[a-z-]+\]|<code>.*?</code>|\w+/\S+|--trial\b|<span class=\"name\">.*?</span>|\([a-z]+-[a-z-]+\)"
)
_BLOCK = re.compile(r"</(?:p|li|td|th|h[1-6]|dt|dd|figcaption|span|summary|div|caption|text|title)>")
_CODE = re.compile(r"<(style|script)\b.*?</\1>|<pre.*?</pre>", re.DOTALL)
_END = re.compile(r"(?<=[.!?])\s+")
_TABLE = re.compile(
    r"^\s*(?:columns understood +|understood +)?'|\S {2,}\S.* {2,}\S|\\\\$|&|^\s*\||paceline \w+|\\mathrm|^\\"
)
# 2 min 32 s, 41 ms (39-43 ms), 3.63x: read as one word
_QUANTITY = re.compile(
    r"\d[\d.,±–-]*(?:x|%)?(?: (?:µs|ms|s|min|h|[kMGT]?B(?:/s)?)\b)?(?: \([^()]*\d[^()]*\))?"
)


def analysed(source: Path) -> Analysis:
    if source.suffix == ".csv":
        return table_analysis(read_table(source.read_text(encoding="utf-8")))
    folder = StudyFolder(source)
    return analysis_of_folder(folder, read_study(folder.study_toml))


def text_of_page(analysis: Analysis) -> str:
    """What a reader sees, a line for every block."""
    plain = re.sub(
        r"<[^>]+>", " ", _BLOCK.sub("\n\n", _NAMES.sub(" ", _CODE.sub(" ", page([("", analysis)]))))
    )
    return html.unescape(plain)


def outputs(analysis: Analysis):
    yield "terminal", analysis_text(analysis, folder=Path("study"))
    yield "table", table.table_text(analysis)
    yield "text", text.text_report(analysis)
    yield "markdown", markdown_report(analysis)
    yield "latex", latex_report(analysis, figures="figures")
    yield "lab", lab_markdown(analysis, figures="figures")
    yield "lab in latex", lab_latex(analysis, figures="figures")
    yield "page", text_of_page(analysis)


def old_words(said: str) -> list[str]:
    return sorted({found[0] for found in OLD.finditer(_NAMES.sub(" ", said))})


def long_sentences(said: str) -> list[str]:
    """Sentences of more words than a reader in a hurry takes; a line of a table, a formula or a command is none."""
    blocks = [line for line in said.splitlines() if not _TABLE.search(line)]
    found = [" ".join(part.split()) for block in blocks for part in _END.split(block)]
    return [one for one in found if len(re.findall(r"[^\W_][\w'-]+", _QUANTITY.sub("QQ", one))) > LONGEST]


@pytest.fixture(autouse=True)
def one_line_for_a_paragraph(monkeypatch):
    """So that a sentence is found whole."""
    monkeypatch.setattr(text, "_WIDTH", 10_000)
    monkeypatch.setattr(table, "_WIDTH", 10_000)


@pytest.fixture(
    scope="module", params=[*RECORDED, *LABS, FULL], ids=lambda p: "full" if p is FULL else p.stem
)
def analysis(request):
    return FULL if request.param is FULL else analysed(request.param)


def test_no_output_has_a_word_that_a_reader_would_have_to_learn(analysis):
    assert {name: found for name, said in outputs(analysis) if (found := old_words(said))} == {}


def test_no_sentence_has_more_than_25_words(analysis):
    assert {name: found for name, said in outputs(analysis) if (found := long_sentences(said))} == {}


def test_a_sentence_that_is_too_long_is_found():
    assert long_sentences("one two three. " + "word " * 26) == [" ".join(["word"] * 26)]
    assert old_words("the exposed wire [wire-bound]") == ["exposed", "wire"]
