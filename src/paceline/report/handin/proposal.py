"""Half a page for a proposal: how the code performs, one table, one figure, and what the planned work takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from textwrap import fill

from paceline.records import Analysis
from paceline.report.document import Figure, Table
from paceline.report.escape import ascii_text, latex_text
from paceline.report.handin.latex import figure_of
from paceline.report.handin.performance import performance
from paceline.report.lead import lead_figures
from paceline.report.sections import title
from paceline.report.tables.grid_text import latex_of, plain_of
from paceline.report.tables.measured import scaling_table

__all__ = ["proposal_latex", "proposal_text"]

_WIDTH = 78
_COLUMNS = ("line", "workers", "nodes", "global batch", "samples/s", "speed-up", "efficiency", "state")
_SAID = ("Problem", "Machine", "Method", "Result", "Limit", "Extrapolated", "Resources")


def proposal_text(analysis: Analysis) -> str:
    """For a form that takes text alone."""
    return "\n".join(_text(analysis)).rstrip() + "\n"


def proposal_latex(analysis: Analysis, *, figures: str | None) -> str:
    """To be included in a proposal. `figures`: the folder with the PDF figures."""
    return "\n".join(_latex(analysis, figures)).rstrip() + "\n"


def _text(analysis: Analysis) -> Iterator[str]:
    for paragraph in performance(analysis):
        if paragraph.title in _SAID:
            yield fill(ascii_text(f"{paragraph.title}. {paragraph.text}"), _WIDTH, subsequent_indent="  ")
    table = _table(analysis)
    if table is not None:
        yield ""
        yield plain_of(table, width=_WIDTH)


def _latex(analysis: Analysis, figures: str | None) -> Iterator[str]:
    yield "% Needs \\usepackage[T1]{fontenc} and \\usepackage{booktabs,graphicx,textcomp}."
    yield r"\begingroup\sloppy"
    yield rf"\section*{{Code performance: {latex_text(title(analysis))}}}"
    for paragraph in performance(analysis):
        if paragraph.title in _SAID:
            yield rf"\paragraph{{{latex_text(paragraph.title)}.}} {latex_text(paragraph.text)}"
    table, figure = _table(analysis), _figure(analysis)
    if table is not None:
        yield latex_of(table)
    if figure is not None and figures is not None:
        yield figure_of(figure, figures)
    yield r"\par\endgroup"


def _figure(analysis: Analysis) -> Figure | None:
    return next((figure for figure in lead_figures(analysis) if figure.id.startswith("speedup")), None)


def _table(analysis: Analysis) -> Table | None:
    """Every count with what a referee asks for."""
    whole = scaling_table(analysis)
    if whole is None:
        return None
    kept = [i for i, column in enumerate(whole.columns) if column.name in _COLUMNS]
    return replace(
        whole,
        columns=tuple(whole.columns[i] for i in kept),
        rows=tuple(tuple(row[i] for i in kept) for row in whole.rows),
    )
