"""`paceline report`: a study, an analysis.json or a table -> a page, or one of the forms that people hand in."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from paceline.analysis.cluster import price_from
from paceline.analysis.question import Ask
from paceline.core.errors import StudyError, UsageError
from paceline.data import shipped
from paceline.decide.options import planned
from paceline.records import Analysis
from paceline.report.charts import draw
from paceline.report.charts.tidy import tidy_csv
from paceline.report.handin.centre import Centre, centre_from
from paceline.report.handin.lab_text import lab_latex, lab_markdown
from paceline.report.handin.latex import latex_report
from paceline.report.handin.markdown import markdown_report
from paceline.report.handin.proposal import proposal_latex, proposal_text
from paceline.report.handin.text import text_report
from paceline.report.page import page
from paceline.report.sections import sections
from paceline.source.anything import analysis_at
from paceline.store.atomic import make_folder, write_bytes, write_text
from paceline.store.paths import StudyFolder

__all__ = ["report", "report_beside"]

_PAGE = "report.html"
_FORMS = {"--lab": lab_markdown, "--lab --latex": lab_latex}
Studies = Sequence[tuple[str, Analysis]]


def report(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="STUDY|ANALYSIS.json|TABLE...", help="Study folders, analyses or tables."),
    ],
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the page goes.  [default: beside the study]")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown instead.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX with booktabs tables instead.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print every number as tidy CSV instead.")] = False,
    text: Annotated[bool, typer.Option("--text", help="Print plain ASCII text instead.")] = False,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the figures here as SVG, PDF and PNG.")
    ] = None,
    lab: Annotated[
        bool, typer.Option("--lab", help="Print the skeleton of a lab report (Markdown, or with --latex).")
    ] = False,
    proposal: Annotated[
        bool, typer.Option("--proposal", help="Print half a page for a proposal (text, or with --latex).")
    ] = False,
    centre: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="CENTRE",
            help="With what this centre asks: access, nersc, csc, juelich, eurohpc.",
        ),
    ] = None,
    samples: Annotated[
        float | None, typer.Option(min=1, help="Resources for so many samples (epochs x data set).")
    ] = None,
    epochs: Annotated[
        float | None, typer.Option(min=0, help="Resources for so many epochs, where an epoch was timed.")
    ] = None,
    trainings: Annotated[int, typer.Option(min=1, help="Resources for so many trainings.")] = 1,
    price: Annotated[
        str | None, typer.Option(help="What a worker or node costs: EUR 2.5/gpu-h, 0.04/worker-h, 40/node-h.")
    ] = None,
) -> None:
    """Render one page that needs nothing else, or Markdown, LaTeX, CSV, text and figures for a paper.

    paceline report STUDY

    paceline report STUDY --latex --figures figures > performance.tex
    """
    asked = [name for name, on in _forms(markdown, latex, csv, text).items() if on]
    if lab:
        asked = _lab_form(asked)
    if proposal or centre is not None:
        asked = _proposal_form(asked)
    wishes = None if centre is None else _centre(centre)
    if len(asked) > 1:
        raise UsageError(
            f"{' and '.join(asked)} cannot both go to the output", hint=f"{asked[0]} > FILE, then the other"
        )
    if samples is not None and epochs is not None:
        raise UsageError("--samples and --epochs both say how long a training is", hint="give one of them")
    ask = Ask() if price is None else Ask(prices=price_from(price))
    found = [(source, analysis_at(source, ask=ask)) for source in sources]
    if samples is not None or epochs is not None or trainings > 1:
        plan = partial(_with_plan, samples=samples, epochs=epochs, trainings=trainings)
        found = [(source, plan(source, analysis)) for source, analysis in found]
    studies = named(found)
    if figures is not None:
        write_figures(studies, figures)
    if asked:
        print(_printed(asked[0], studies, figures, wishes), end="")
    if html is not None or not (asked or figures):
        where = html or _beside(sources)
        write_text(where, page(studies))
        print(f"Report: {where}", file=sys.stderr if asked else sys.stdout)


def _with_plan(
    source: Path, analysis: Analysis, *, samples: float | None, epochs: float | None, trainings: int
) -> Analysis:
    """The Analysis with the resources of planned work."""
    if analysis.decision is None:
        raise UsageError(
            f"{source} has no two settings to choose from, so no resources can be estimated",
            hint="measure two worker counts",
        )
    return replace(
        analysis, decision=planned(analysis.decision, samples=samples, epochs=epochs, trainings=trainings)
    )


def report_beside(folder: StudyFolder, analysis: Analysis) -> None:
    """The page of a study that has just ended. Whatever happens here, the study stands: the reason is said."""
    try:
        write_text(folder.report_html, page([("", analysis)]))
    except StudyError as problem:
        print(f"no report was written: {problem.message}", file=sys.stderr)
    except Exception as problem:  # rendering is last and least: no fault of it may cost a study its result
        print(f"no report was written: {type(problem).__name__}: {problem}", file=sys.stderr)
    else:
        print(f"Report: {folder.report_html}", file=sys.stderr)


def write_figures(studies: Studies, folder: Path) -> None:
    """Every figure as SVG, PDF and PNG; several studies each into a folder of its own."""
    make_folder(folder)
    for i, (_, analysis) in enumerate(studies, 1):
        own = folder / f"study-{i}" if len(studies) > 1 else folder
        make_folder(own)
        for figure in [figure for section in sections(analysis) for figure in section.figures]:
            write_text(own / f"{figure.id}.svg", draw.svg(figure.spec))
            write_bytes(own / f"{figure.id}.pdf", draw.pdf(figure.spec))
            write_bytes(own / f"{figure.id}.png", draw.png(figure.spec))
    print(f"Figures: {folder}", file=sys.stderr)


def _lab_form(asked: Sequence[str]) -> list[str]:
    if any(form not in ("--markdown", "--latex") for form in asked):
        raise UsageError(f"a lab report does not come as {asked[0][2:]}", hint="--lab, or --lab --latex")
    return ["--lab --latex" if "--latex" in asked else "--lab"]


def _proposal_form(asked: Sequence[str]) -> list[str]:
    if any(form not in ("--text", "--latex") for form in asked):
        raise UsageError(
            f"a proposal does not come as {asked[0].lstrip('-')}", hint="--proposal, or --proposal --latex"
        )
    return ["--proposal --latex" if "--latex" in asked else "--proposal"]


def _forms(markdown: bool, latex: bool, csv: bool, text: bool) -> dict[str, bool]:
    return {"--markdown": markdown, "--latex": latex, "--csv": csv, "--text": text}


def _centre(name: str) -> Centre:
    """What the centre of this name asks for."""
    known = shipped("centres")
    if name not in known:
        raise UsageError(
            f"--for {name!r} is no centre that is known",
            hint=f"one of {', '.join(known)}; or --proposal alone",
        )
    return centre_from(known[name])


def _printed(form: str, studies: Studies, figures: Path | None, centre: Centre | None) -> str:
    if form == "--csv":
        return tidy_csv(studies)
    if form == "--markdown":
        return "\n".join(markdown_report(analysis) for _, analysis in studies)
    if form == "--proposal":
        return "\n\n".join(proposal_text(analysis, centre=centre) for _, analysis in studies)
    if form == "--text":
        return "\n\n".join(text_report(analysis) for _, analysis in studies)
    folders = [
        None if figures is None else f"{figures}/study-{i}" if len(studies) > 1 else str(figures)
        for i in range(1, len(studies) + 1)
    ]
    return "\n".join(
        proposal_latex(analysis, figures=folder, centre=centre)
        if form == "--proposal --latex"
        else _FORMS.get(form, latex_report)(analysis, figures=folder)
        for (_, analysis), folder in zip(studies, folders, strict=True)
    )


def named(found: Sequence[tuple[Path, Analysis]]) -> Studies:
    """One study goes by its command; several by the shortest ends of their paths that tell them apart."""
    if len(found) == 1:
        return [("", found[0][1])]
    parts = [os.path.abspath(path).split(os.sep) for path, _ in found]
    length = next(
        n
        for n in range(1, 99)
        if n > max(map(len, parts)) or len({tuple(p[-n:]) for p in parts}) == len(parts)
    )
    return [(os.sep.join(own[-length:]), analysis) for own, (_, analysis) in zip(parts, found, strict=True)]


def _beside(sources: Sequence[Path]) -> Path:
    first = sources[0]
    if len(sources) > 1:
        return Path(_PAGE)
    if first.is_dir():
        return first / _PAGE
    return first.with_name(_PAGE) if first.name == "analysis.json" else Path(f"{first.stem}.html")
