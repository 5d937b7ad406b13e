"""A report as plain ASCII, for forms and proposal systems that take nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import fill

from paceline.records import Analysis
from paceline.report.advice import advice
from paceline.report.answer_tables import source_table
from paceline.report.document import Table
from paceline.report.escape import ascii_text
from paceline.report.grid_text import plain_of
from paceline.report.performance import performance
from paceline.report.sections import sections_in_words, title

__all__ = ["text_report"]

_WIDTH = 100
_MARKS = {True: "ok", False: "NO", None: "??"}
_LEVELS = {"void": "VOID", "doubt": "DOUBT", "note": "note"}


def text_report(analysis: Analysis) -> str:
    """Verdict, what to do, thresholds, tables, findings, source."""
    return "\n".join(_lines(analysis)).rstrip() + "\n"


def _lines(analysis: Analysis) -> Iterator[str]:
    yield from _heading(f"Scaling of {title(analysis)}", "=")
    for paragraph in performance(analysis):
        yield _wrapped(f"{paragraph.title}. {paragraph.text}", indent="  ")
    yield ""
    for one in advice(analysis):
        yield _wrapped(f"To do ({one.goals}): {one.text} ({one.condition})", indent="  ")
    for threshold in analysis.thresholds:
        yield _wrapped(f"[{_MARKS[threshold.holds]}] {threshold.message}", indent="     ")
    for section in sections_in_words(analysis):
        yield ""
        yield from _heading(section.title, "-")
        for sentence in section.sentences:
            yield _wrapped(sentence)
        for table in section.tables:
            yield from _table(table)
    if analysis.findings:
        yield ""
        yield from _heading("Findings", "-")
    for finding in analysis.findings:
        yield _wrapped(f"{_LEVELS[finding.level]}: {finding.message} [{finding.id}]", indent="  ")
        if finding.hint:
            yield _wrapped(f"  next: {finding.hint}", indent="    ")
    if analysis.failures:
        yield ""
        yield from _heading("Failed trials", "-")
    for failure in analysis.failures:
        yield _wrapped(
            f"{failure.trial}: {failure.state}, {failure.reason or 'no reason known'}", indent="  "
        )
    source = source_table(analysis)
    if source is not None:
        yield ""
        yield from _heading("Source", "-")
        yield from _table(source)


def _heading(text: str, line: str) -> Iterator[str]:
    shown = " ".join(ascii_text(text).split())
    yield shown
    yield line * min(len(shown), _WIDTH)


def _table(table: Table) -> Iterator[str]:
    yield _wrapped(table.caption)
    yield ""
    yield plain_of(table)
    yield ""


def _wrapped(text: str, *, indent: str = "") -> str:
    return fill(ascii_text(text), _WIDTH, subsequent_indent=indent, break_long_words=False)
