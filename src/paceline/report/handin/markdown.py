"""A report as Markdown: for a pull request, a wiki, a lab journal."""

from __future__ import annotations

from collections.abc import Iterator

from paceline.core.words import LEVELS, capital
from paceline.decide.sentence import verdict_text
from paceline.records import Analysis
from paceline.report.advice import advice
from paceline.report.commands import with_commands
from paceline.report.document import Table
from paceline.report.escape import markdown_text
from paceline.report.sections import sections_in_words, title
from paceline.report.tables.answers import source_table
from paceline.report.tables.grid_text import markdown_of
from paceline.report.tables.provenance import measured_how

__all__ = ["markdown_report"]

_MARKS = {True: "✓", False: "✗", None: "?"}


def markdown_report(analysis: Analysis) -> str:
    """Verdict, what to do, thresholds, tables, findings, failed trials, source."""
    return "\n".join(_lines(with_commands(analysis))).rstrip() + "\n"


def _lines(analysis: Analysis) -> Iterator[str]:
    yield f"# Scaling of {markdown_text(title(analysis))}\n"
    yield f"**{markdown_text(verdict_text(analysis.verdict))}**\n"
    if how := measured_how(analysis):
        yield markdown_text(how) + "\n"
    for one in advice(analysis):
        goals, said, condition = map(markdown_text, (one.goals, one.sentences, capital(one.condition)))
        yield f"- **{goals}** {said}. ({condition}.)"
    for threshold in analysis.thresholds:
        yield f"- {_MARKS[threshold.holds]} {markdown_text(threshold.message)}"
    for section in sections_in_words(analysis):
        yield f"\n## {markdown_text(section.title)}\n"
        for sentence in section.sentences:
            yield markdown_text(sentence) + "\n"
        for table in section.tables:
            yield from _table(table)
    if analysis.findings:
        yield "\n## Findings\n"
    for finding in analysis.findings:
        hint = f" Next: {markdown_text(finding.following)}." if finding.following else ""
        yield f"- **{LEVELS[finding.level]}** {markdown_text(finding.text)}.{hint} ({markdown_text(finding.id)})"
    if analysis.failures:
        yield "\n## Failed runs\n"
    for failure in analysis.failures:
        reason = markdown_text(failure.reason or "no reason known")
        yield f"- **{markdown_text(failure.trial)}** {failure.state}: {reason}"
    source = source_table(analysis)
    if source is not None:
        yield "\n## Source\n"
        yield from _table(source)


def _table(table: Table) -> Iterator[str]:
    yield markdown_text(table.caption) + "\n"
    yield markdown_of(table) + "\n"
