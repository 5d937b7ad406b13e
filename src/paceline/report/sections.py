"""The order of a report: verdict and thresholds come first on every rendering, then these sections, those with data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from paceline.core.units import percent_text
from paceline.records import Analysis, Fit
from paceline.report.charts.accuracy import accuracy_figures, comparison_table
from paceline.report.charts.buckets import bucket_figure
from paceline.report.charts.decision import decision_figure
from paceline.report.charts.grid import grid_figures
from paceline.report.charts.links import device_table, link_figure, link_table
from paceline.report.charts.points import accuracy_figure, bus_figure, memory_figure
from paceline.report.charts.scaling import scaling_figures
from paceline.report.charts.stated import stated_bandwidth_figure, stated_parts_figure
from paceline.report.charts.steps import split_figure
from paceline.report.charts.workers import course_figures, straggler_figure, utilisation_figure
from paceline.report.document import Figure, Section, Table
from paceline.report.tables import answers as answer_tables
from paceline.report.tables import measured as tables
from paceline.report.tables.memory import forecast_table, memory_table
from paceline.report.tables.stated import stated_table

__all__ = ["sections", "sections_in_words", "title"]

_ABOUT_EXCHANGE = ("link-spec", "link-below-spec", "backends-compared", "losses-agree", "losses-differ")
_T = TypeVar("_T", Figure, Table)


def title(analysis: Analysis) -> str:
    """What was studied, as one line."""
    return str(analysis.source.get("command") or analysis.source.get("table") or "a study")


def sections(analysis: Analysis) -> tuple[Section, ...]:
    """Every section that this Analysis has data for, in the order of reading."""
    several = len({p.point.workers for p in analysis.points if p.state == "ok"}) > 1
    fit = analysis.fit if several or analysis.projections else None  # one count shows nothing about a law
    found = (
        Section("asked", "What was asked", tables=_present(answer_tables.asked_table(analysis))),
        Section("grids", "Grids", figures=grid_figures(analysis)),
        Section(
            "scaling",
            "Speed-up and efficiency",
            figures=scaling_figures(analysis),
            tables=_present(tables.scaling_table(analysis)),
        ),
        Section(
            "step",
            "Where the step goes",
            figures=_present(split_figure(analysis), stated_parts_figure(analysis), bucket_figure(analysis)),
            tables=_present(
                tables.split_table(analysis), stated_table(analysis), tables.bucket_table(analysis)
            ),
        ),
        Section(
            "exchange",
            "Communication",
            sentences=_said(analysis, _ABOUT_EXCHANGE),
            figures=_present(bus_figure(analysis), stated_bandwidth_figure(analysis), link_figure(analysis)),
            tables=_present(tables.exchange_table(analysis), link_table(analysis), device_table(analysis)),
        ),
        Section(
            "accuracy",
            "Accuracy",
            figures=(*accuracy_figures(analysis), *_present(accuracy_figure(analysis))),
            tables=_present(comparison_table(analysis), answer_tables.convergence_table(analysis)),
        ),
        Section(
            "memory",
            "Memory, utilisation, slow workers",
            figures=(
                *_present(memory_figure(analysis), utilisation_figure(analysis), straggler_figure(analysis)),
                *course_figures(analysis),
            ),
            tables=_present(
                memory_table(analysis), forecast_table(analysis), tables.utilisation_table(analysis)
            ),
        ),
        Section(
            "decision",
            "Decision and prediction",
            sentences=_fit_sentences(fit),
            figures=_present(decision_figure(analysis)),
            tables=_present(
                answer_tables.recommendation_table(analysis),
                answer_tables.resource_table(analysis),
                answer_tables.projection_table(analysis),
                answer_tables.refusal_table(analysis),
                answer_tables.fit_table(fit),
            ),
        ),
    )
    return tuple(section for section in found if section.figures or section.tables or section.sentences)


def sections_in_words(analysis: Analysis) -> tuple[Section, ...]:
    """Those sections that say something without a picture."""
    return tuple(section for section in sections(analysis) if section.sentences or section.tables)


def _said(analysis: Analysis, kinds: tuple[str, ...]) -> tuple[str, ...]:
    """What findings of these kinds say, where a section has need of it."""
    found = [f.sentence for f in analysis.findings if f.id in kinds]
    return tuple(f"{text}." for text in dict.fromkeys(found))


def _fit_sentences(fit: Fit | None) -> tuple[str, ...]:
    if fit is None:
        return ()
    found = [f"{fit.explanation}."] if fit.explanation else []
    errors = [
        f"{method} {percent_text(error)}" for method, error in fit.held_out_error.items() if error is not None
    ]
    if errors:
        found.append(
            f"Error of a prediction of the largest measured count from the others: {', '.join(errors)}."
        )
    return tuple(found)


def _present(*items: _T | None) -> tuple[_T, ...]:
    return tuple(_some(items))


def _some(items: Iterable[_T | None]) -> Iterable[_T]:
    return (item for item in items if item is not None)
