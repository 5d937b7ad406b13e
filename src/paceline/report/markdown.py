"""A report as Markdown: for a pull request, a wiki, a lab journal."""

from __future__ import annotations

from collections.abc import Iterator

from paceline.records import Analysis
from paceline.report.advice import advice
from paceline.report.answer_tables import source_table
from paceline.report.document import Table
from paceline.report.escape import markdown_text
from paceline.report.grid_text import markdown_of
from paceline.report.provenance import measured_how
from paceline.report.sections import sections_in_words, title

__all__ = ["markdown_report"]

_MARKS = {True: "✓", False: "✗", None: "?"}


def markdown_report(analysis: Analysis) -> str:
    """Verdict, what to do, thresholds, tables, findings, failed trials, source."""
    return "\n".join(_lines(analysis)).rstrip() + "\n"


def _lines(analysis: Analysis) -> Iterator[str]:
    yield f"# Scaling of {markdown_text(title(analysis))}\n"
    yield f"**{markdown_text(analysis.verdict)}**\n"
    if how := measured_how(analysis):
        yield markdown_text(how) + "\n"
    for one in advice(analysis):
        yield f"- **{markdown_text(one.goals)}** {markdown_text(one.text)} ({markdown_text(one.condition)})"
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
        hint = f" Next: {markdown_text(finding.hint)}." if finding.hint else ""
        yield f"- **{finding.level}** {markdown_text(finding.message)}.{hint} ({markdown_text(finding.id)})"
    if analysis.failures:
        yield "\n## Failed trials\n"
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
