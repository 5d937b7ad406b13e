"""The skeleton of a lab report: question, setup, results with the formulas filled with the student's own numbers,
and what to discuss. What it measures is written; what it means is left to the student, where a line says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paceline.core.units import estimate_text, gain_text, is_unusable, workers_text
from paceline.decide.sentence import verdict_text
from paceline.records import Analysis
from paceline.report.charts.series import lines, scalings, unit_of
from paceline.report.document import Figure, Table
from paceline.report.handin.blocks import Blank, Block, Heading, Sentence
from paceline.report.handin.lab_formulas import bandwidth_formulas, speedup_formulas, step_formula
from paceline.report.handin.performance import performance
from paceline.report.sections import sections, title
from paceline.report.tables.matrix import matrix_table

__all__ = ["lab_blocks"]

_SETUP = ("Problem", "Machine", "Precision and I/O", "Method")
_MOST_DOUBTS = 6


def lab_blocks(analysis: Analysis) -> tuple[Block, ...]:
    """The whole report in the order of reading."""
    return (
        *_question(analysis),
        *_setup(analysis),
        Heading("Results"),
        *_speedups(analysis),
        *_step(analysis),
        *_exchange(analysis),
        *_accuracy(analysis),
        *_prediction(analysis),
        *_asked(analysis),
        *_discussion(analysis),
    )


def _question(analysis: Analysis) -> list[Block]:
    return [
        Heading("Question"),
        Sentence(
            f"How much faster does {title(analysis)} become with more {unit_of(analysis)}s, and what limits it?"
        ),
        Blank("What did you expect before you measured, and why?"),
    ]


def _setup(analysis: Analysis) -> list[Block]:
    known = [
        Sentence(f"{paragraph.title}: {paragraph.text}")
        for paragraph in performance(analysis)
        if paragraph.title in _SETUP
    ]
    return [
        Heading("Setup"),
        *known,
        Blank("What else ran on the machine? What did you keep the same from count to count, and what not?"),
    ]


def _speedups(analysis: Analysis) -> list[Block]:
    found: list[Block] = []
    matrix = matrix_table(analysis)
    if matrix is not None:
        found.append(matrix)
    found += _tables(analysis, "scaling")
    found += _figures(analysis, "grids", "scaling")
    for mode in scalings(analysis):
        for name, own in lines(analysis, mode).items():
            found += speedup_formulas(name, own)
    return found


def _step(analysis: Analysis) -> list[Block]:
    """Compute against communication: as measured, or as a table states it."""
    tables = [table for table in _tables(analysis, "step") if table.id in ("split", "stated")]
    split = [p for p in analysis.points if p.compute_s and p.straggle_s and p.wire_s and p.step_s]
    if not tables:
        return []
    formula = step_formula(max(split, key=lambda p: p.point.workers)) if split else []
    figures = [figure for figure in _figures(analysis, "step") if figure.id in ("split", "stated")]
    return [*tables, *figures, *formula, Blank("Which part grows with the workers, and why that one?")]


def _exchange(analysis: Analysis) -> list[Block]:
    """Bandwidth, and its share of the link."""
    return [
        *_figures(analysis, "exchange"),
        *(table for table in _tables(analysis, "exchange") if table.id != "devices"),
        *bandwidth_formulas(analysis),
    ]


def _accuracy(analysis: Analysis) -> list[Block]:
    found = analysis.convergence
    if found is None:
        return []
    shown: list[Block] = []
    if found.plateau_epoch is not None and not found.censored:
        shown.append(Sentence(f"Accuracy is stable from epoch {estimate_text(found.plateau_epoch)} on."))
    elif found.censored:
        shown.append(
            Sentence("Accuracy was still rising at the last epoch: train longer to see where it is stable.")
        )
    shown += [*_figures(analysis, "accuracy"), *_tables(analysis, "accuracy")]
    if shown:
        shown.append(
            Blank("Did more workers change the accuracy? Is the difference larger than that between seeds?")
        )
    return shown


def _prediction(analysis: Analysis) -> list[Block]:
    known = [table for table in _tables(analysis, "decision") if table.id in ("projections", "refusals")]
    sure = [p for p in analysis.projections if p.speedup is not None and not is_unusable(p.speedup)]
    asked = [
        Blank(
            f"For {workers_text(one.workers, unit_of(analysis))} a speed-up of {gain_text(one.speedup)} is predicted, "
            "not measured. Which of your measurements does this rest on, and what could make it wrong?"
        )
        for one in sure[:1]
    ]
    return [*known, *asked]


def _asked(analysis: Analysis) -> Iterator[Block]:
    """What the recipe asked, with its answers."""
    if analysis.answers:
        yield Heading("What the recipe asked")
    for answer in analysis.answers:
        yield Sentence(f"{answer.question} {'; '.join(answer.lines)}.")


def _discussion(analysis: Analysis) -> list[Block]:
    doubts = {finding.id: finding for finding in reversed(analysis.findings) if finding.level != "note"}
    first = list(reversed(doubts.values()))[:_MOST_DOUBTS]  # one of a kind
    return [
        Heading("Discussion"),
        Sentence(verdict_text(analysis.verdict)),
        Blank("Does this agree with what you expected? Where not, what explains it?"),
        *(Blank(f"{finding.text}. What does this mean for your results?") for finding in first),
        Blank(
            f"How many {unit_of(analysis)}s would you use for this training, and at what price do the last ones come?"
        ),
        Heading("Conclusion"),
        Blank("Your answer to the question, in three sentences."),
    ]


def _figures(analysis: Analysis, *names: str) -> Sequence[Figure]:
    found = {section.id: section for section in sections(analysis)}
    return [figure for name in names if name in found for figure in found[name].figures]


def _tables(analysis: Analysis, name: str) -> Sequence[Table]:
    return [table for section in sections(analysis) if section.id == name for table in section.tables]
