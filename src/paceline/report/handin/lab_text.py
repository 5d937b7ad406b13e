"""A lab report as Markdown (formulas as GitHub, GitLab and Pandoc set them) or as a LaTeX document that compiles."""

from __future__ import annotations

from collections.abc import Iterator

from paceline.records import Analysis
from paceline.report.document import Figure, Table
from paceline.report.escape import latex_text, markdown_text
from paceline.report.handin.blocks import Blank, Formula, Heading, Sentence
from paceline.report.handin.lab import lab_blocks
from paceline.report.handin.latex import figure_of
from paceline.report.sections import title
from paceline.report.tables.grid_text import latex_of, markdown_of

__all__ = ["lab_latex", "lab_markdown"]

_PREAMBLE = (
    r"\documentclass[a4paper]{article}",
    r"\usepackage[T1]{fontenc}",
    r"\usepackage{amsmath,booktabs,graphicx,textcomp}",
    r"\sloppy",
    r"\newcommand{\answer}[1]{\par\noindent\textit{#1}\par\vspace{3\baselineskip}}",
)
_SPACE = "*Your answer:*"


def lab_markdown(analysis: Analysis, *, figures: str | None) -> str:
    """Markdown. `figures`: the folder with the pictures; None: none is shown."""
    return "\n".join(_markdown(analysis, figures)).rstrip() + "\n"


def lab_latex(analysis: Analysis, *, figures: str | None) -> str:
    """A whole LaTeX document."""
    return "\n".join(_latex(analysis, figures)).rstrip() + "\n"


def _markdown(analysis: Analysis, figures: str | None) -> Iterator[str]:
    yield f"# Lab report: scaling of {markdown_text(title(analysis))}\n"
    yield "Name:\n\nDate:\n"
    for block in lab_blocks(analysis):
        match block:
            case Heading():
                yield f"## {markdown_text(block.text)}\n"
            case Sentence():
                yield markdown_text(block.text) + "\n"
            case Formula():
                yield f"$${block.tex}$$\n"
            case Blank():
                yield f"> {markdown_text(block.question)}\n\n{_SPACE}\n"
            case Table():
                yield f"{markdown_text(block.caption)}\n\n{markdown_of(block)}\n"
            case Figure():
                if figures is not None:
                    path = (
                        f"{figures}/{block.id}.png".replace(" ", "%20")
                        .replace(")", "%29")
                        .replace("(", "%28")
                    )
                    yield f"![{markdown_text(block.title)}]({path})\n\n{markdown_text(block.whole_caption)}\n"


def _latex(analysis: Analysis, figures: str | None) -> Iterator[str]:
    yield from _PREAMBLE
    yield rf"\title{{Lab report: scaling of {latex_text(title(analysis))}}}"
    yield r"\author{}"
    yield r"\begin{document}"
    yield r"\maketitle"
    for block in lab_blocks(analysis):
        match block:
            case Heading():
                yield "\n" + rf"\section{{{latex_text(block.text)}}}"
            case Sentence():
                yield latex_text(block.text) + "\n"
            case Formula():
                yield rf"\[ {block.tex} \]"
            case Blank():
                yield rf"\answer{{{latex_text(block.question)}}}"
            case Table():
                yield latex_of(block)
            case Figure():
                if figures is not None:
                    yield figure_of(block, figures)
    yield r"\end{document}"
