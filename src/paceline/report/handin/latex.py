"""A report as LaTeX to be included in a paper or a proposal: text, booktabs tables, figures from `--figures`.

The preamble needs \\usepackage[T1]{fontenc} and \\usepackage{booktabs,graphicx,textcomp}.
"""

from __future__ import annotations

from collections.abc import Iterator

from paceline.core.words import capital
from paceline.records import Analysis
from paceline.report.advice import advice
from paceline.report.document import Figure
from paceline.report.escape import latex_text
from paceline.report.handin.performance import performance
from paceline.report.sections import sections, title
from paceline.report.tables.answers import source_table
from paceline.report.tables.grid_text import latex_of

__all__ = ["figure_of", "latex_report"]


def latex_report(analysis: Analysis, *, figures: str | None) -> str:
    """Code performance as a section. `figures`: the folder with the PDF figures; None: no figure is included."""
    return "\n".join(_lines(analysis, figures)).rstrip() + "\n"


def _lines(analysis: Analysis, figures: str | None) -> Iterator[str]:
    yield "% Needs \\usepackage[T1]{fontenc} and \\usepackage{booktabs,graphicx,textcomp}."
    yield r"\begingroup\sloppy"
    yield rf"\section*{{Code performance: {latex_text(title(analysis))}}}"
    for paragraph in performance(analysis):
        yield rf"\paragraph{{{latex_text(paragraph.title)}.}} {latex_text(paragraph.text)}"
    if found := advice(analysis):
        yield "\n" + r"\paragraph{What to do.}"
        yield r"\begin{itemize}"
        for one in found:
            goals, text, condition = map(latex_text, (one.goals, one.sentences, capital(one.condition)))
            yield rf"\item {goals}: {text}. ({condition}.)"
        yield r"\end{itemize}"
    doubts = [finding for finding in analysis.findings if finding.level != "note"]
    if doubts:
        yield "\n" + r"\paragraph{Reservations.}"
        yield r"\begin{itemize}"
        yield from (rf"\item {latex_text(finding.text)}." for finding in doubts)
        yield r"\end{itemize}"
    for section in sections(analysis):
        yield f"\n% {latex_text(section.title)}"
        for sentence in section.sentences:
            yield latex_text(sentence)
        if figures is not None:
            for figure in section.figures:
                yield figure_of(figure, figures)
        for table in section.tables:
            yield latex_of(table)
    source = source_table(analysis)
    if source is not None:
        yield "\n" + latex_of(source)
    yield r"\par\endgroup"


def figure_of(figure: Figure, folder: str) -> str:
    """A figure from its PDF in this folder, with its caption."""
    return "\n".join(
        [
            r"\begin{figure}",
            r"\centering",
            rf"\includegraphics[width=\linewidth]{{\detokenize{{{folder}/{figure.id}.pdf}}}}",
            rf"\caption{{{latex_text(figure.whole_caption)}}}",
            rf"\label{{fig:{figure.id}}}",
            r"\end{figure}",
        ]
    )
