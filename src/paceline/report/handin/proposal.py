"""Half a page for a proposal: how the code performs, one table, one figure, and what the planned work takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from textwrap import fill

from paceline.core.units import is_unusable
from paceline.records import Analysis
from paceline.report.document import Figure, Table
from paceline.report.escape import ascii_text, latex_text
from paceline.report.handin.centre import Centre, asked_by
from paceline.report.handin.latex import figure_of
from paceline.report.handin.performance import Paragraph, performance
from paceline.report.lead import lead_figures
from paceline.report.sections import title
from paceline.report.tables.grid_text import latex_of, plain_of
from paceline.report.tables.measured import scaling_table

__all__ = ["proposal_latex", "proposal_text"]

_WIDTH = 78
_COLUMNS = ("workers", "GPUs", "nodes", "global batch", "samples/s", "speed-up", "efficiency")
_SAID = ("Problem", "Machine", "Method", "Result", "Limit", "Extrapolated", "Resources")


def proposal_text(analysis: Analysis, *, centre: Centre | None = None) -> str:
    """For a form that takes text alone; with what a centre asks for."""
    return "\n".join(_text(analysis, centre)).rstrip() + "\n"


def proposal_latex(analysis: Analysis, *, figures: str | None, centre: Centre | None = None) -> str:
    """To be included in a proposal. `figures`: the folder with the PDF figures."""
    return "\n".join(_latex(analysis, figures, centre)).rstrip() + "\n"


def _text(analysis: Analysis, centre: Centre | None) -> Iterator[str]:
    for paragraph in _paragraphs(analysis, centre):
        text = ascii_text(f"{paragraph.title}. {paragraph.text}")
        yield fill(text, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    table = _table(analysis)
    if table is not None:
        yield ""
        yield plain_of(table, width=_WIDTH)
        yield fill(ascii_text(table.caption), _WIDTH)


def _latex(analysis: Analysis, figures: str | None, centre: Centre | None) -> Iterator[str]:
    yield "% Needs \\usepackage[T1]{fontenc} and \\usepackage{booktabs,graphicx,textcomp}."
    yield r"\begingroup\sloppy"
    yield rf"\section*{{Code performance: {latex_text(title(analysis))}}}"
    for paragraph in _paragraphs(analysis, centre):
        yield rf"\paragraph{{{latex_text(paragraph.title)}.}} {latex_text(paragraph.text)}"
    table, figure = _table(analysis), _figure(analysis)
    if table is not None:
        yield latex_of(table)
    if figure is not None and figures is not None:
        yield figure_of(figure, figures)
    yield r"\par\endgroup"


def _paragraphs(analysis: Analysis, centre: Centre | None) -> list[Paragraph]:
    found = [paragraph for paragraph in performance(analysis) if paragraph.title in _SAID]
    return found if centre is None else [*found, *asked_by(centre, analysis)]


def _figure(analysis: Analysis) -> Figure | None:
    return next((figure for figure in lead_figures(analysis) if figure.id.startswith("speedup")), None)


def _table(analysis: Analysis) -> Table | None:
    """Every count of the series that the verdict is about, with what a referee asks for; a star: predicted."""
    told = set(analysis.verdict.points)
    points = tuple(p for p in analysis.points if p.point.id in told) or analysis.points
    own = {p.point.id for p in points}
    ahead = tuple(
        p
        for p in analysis.projections
        if (p.baseline is None or p.baseline in own) and p.speedup is not None and not is_unusable(p.speedup)
    )
    whole = scaling_table(replace(analysis, points=points, projections=ahead, refusals=()))
    if whole is None:
        return None
    kept = [i for i, column in enumerate(whole.columns) if column.name in _COLUMNS]
    workers = next(i for i, column in enumerate(whole.columns) if column.name in _COLUMNS[:2])
    rows = [
        tuple(f"{row[i]}*" if i == workers and kind == "predicted" else row[i] for i in kept)
        for row, kind in zip(whole.rows, whole.kinds, strict=True)
    ]
    caption = f"{whole.caption} *: predicted, not measured." if ahead else whole.caption
    return replace(
        whole, caption=caption, columns=tuple(whole.columns[i] for i in kept), rows=tuple(rows), kinds=()
    )
