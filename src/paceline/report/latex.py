"""A report as LaTeX to be included in a paper or a proposal: text, booktabs tables, figures from `--figures`.

The preamble needs \\usepackage[T1]{fontenc} and \\usepackage{booktabs,graphicx,textcomp}.
"""

from __future__ import annotations

from collections.abc import Iterator

from paceline.records import Analysis
from paceline.report.advice import advice
from paceline.report.answer_tables import source_table
from paceline.report.document import Figure
from paceline.report.escape import latex_text
from paceline.report.grid_text import latex_of
from paceline.report.provenance import measured_how
from paceline.report.sections import sections, title

__all__ = ["latex_report"]


def latex_report(analysis: Analysis, *, figures: str | None) -> str:
    """Code performance as a section. `figures`: the folder with the PDF figures; None: no figure is included."""
    return "\n".join(_lines(analysis, figures)).rstrip() + "\n"


def _lines(analysis: Analysis, figures: str | None) -> Iterator[str]:
    yield "% Needs \\usepackage[T1]{fontenc} and \\usepackage{booktabs,graphicx,textcomp}."
    yield rf"\section*{{Code performance: {latex_text(title(analysis))}}}"
    yield latex_text(analysis.verdict)
    if how := measured_how(analysis):
        yield latex_text(how)
    for one in advice(analysis):
        yield f"{latex_text(one.goals.capitalize())}: {latex_text(one.text)} ({latex_text(one.condition)})."
    doubts = [finding for finding in analysis.findings if finding.level != "note"]
    if doubts:
        yield "\n" + r"\paragraph{Reservations.}"
        yield r"\begin{itemize}"
        yield from (rf"\item {latex_text(finding.message)}." for finding in doubts)
        yield r"\end{itemize}"
    for section in sections(analysis):
        yield f"\n% {latex_text(section.title)}"
        for sentence in section.sentences:
            yield latex_text(sentence)
        if figures is not None:
            for figure in section.figures:
                yield _figure(figure, figures)
        for table in section.tables:
            yield latex_of(table)
    source = source_table(analysis)
    if source is not None:
        yield "\n" + latex_of(source)


def _figure(figure: Figure, folder: str) -> str:
    return "\n".join(
        [
            r"\begin{figure}",
            r"\centering",
            rf"\includegraphics[width=\linewidth]{{\detokenize{{{folder}/{figure.id}.pdf}}}}",
            rf"\caption{{{latex_text(figure.caption)}}}",
            rf"\label{{fig:{figure.id}}}",
            r"\end{figure}",
        ]
    )
