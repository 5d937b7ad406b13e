"""A report as plain ASCII, for forms and proposal systems that take nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import fill

from paceline.core.words import LEVELS, capital
from paceline.records import Analysis
from paceline.report.advice import advice
from paceline.report.commands import with_commands
from paceline.report.document import Table
from paceline.report.escape import ascii_text
from paceline.report.handin.performance import performance
from paceline.report.sections import sections_in_words, title
from paceline.report.tables.answers import source_table
from paceline.report.tables.grid_text import plain_of

__all__ = ["text_report"]

_WIDTH = 78  # forms break longer lines
_MARKS = {True: "ok", False: "NO", None: "??"}


def text_report(analysis: Analysis) -> str:
    """Verdict, what to do, thresholds, tables, findings, source."""
    return "\n".join(_lines(with_commands(analysis))).rstrip() + "\n"


def _lines(analysis: Analysis) -> Iterator[str]:
    yield from _heading(f"Scaling of {title(analysis)}", "=")
    for paragraph in performance(analysis):
        yield _wrapped(f"{paragraph.title}. {paragraph.text}", indent="  ")
    yield ""
    for one in advice(analysis):
        yield _wrapped(f"To do ({one.goals}): {one.sentences}. ({capital(one.condition)}.)", indent="  ")
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
        yield _wrapped(f"{LEVELS[finding.level]}: {finding.text} [{finding.id}]", indent="  ")
        if finding.following:
            yield _wrapped(f"  next: {finding.following}", indent="    ")
    if analysis.failures:
        yield ""
        yield from _heading("Failed runs", "-")
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
    yield plain_of(table, width=_WIDTH)
    yield ""


def _wrapped(text: str, *, indent: str = "") -> str:
    return fill(ascii_text(text), _WIDTH, subsequent_indent=indent, break_long_words=False)
