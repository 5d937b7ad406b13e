"""What one computing centre asks of a proposal, and what the measurements say to it.

A centre's threshold is the gain of a doubling; the gains are the Analysis's own, and nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from paceline.core.units import workers_text
from paceline.records import Analysis, Threshold
from paceline.report.handin.performance import Paragraph

__all__ = ["Centre", "asked_by", "centre_from"]

_DOUBLING = "gain-per-doubling"


@dataclass(frozen=True, slots=True)
class Centre:
    """One centre or programme, with where its wishes were read and when."""

    name: str
    asks: str
    source: str
    date: str
    at_least: float | None = None  # gain of a doubling of resources; None: no threshold whose source was read
    unit: str | None = None  # of time, where it is not node-hours


def centre_from(row: Mapping[str, object]) -> Centre:
    """One row of the shipped file."""
    return Centre(
        name=str(row["name"]),
        asks=str(row["asks"]),
        source=str(row["source"]),
        date=str(row["date"]),
        at_least=cast("float | None", row.get("at_least")),
        unit=cast("str | None", row.get("unit")),
    )


def asked_by(centre: Centre, analysis: Analysis) -> tuple[Paragraph, ...]:
    """The size of a run and how it was decided; what the centre asks for, with its source."""
    said = (("Size of a run", _size(analysis)), ("Asked", _asked(centre, analysis)))
    return tuple(Paragraph(title, " ".join(sentences)) for title, found in said if (sentences := list(found)))


def _size(analysis: Analysis) -> Iterator[str]:
    measured = [p.point for p in analysis.points if p.state == "ok" and p.point.id in analysis.verdict.points]
    if not measured:
        return
    most = max(measured, key=lambda point: point.workers)
    yield f"Measured up to {workers_text(most.workers, analysis.verdict.unit)} on {_nodes(most.nodes)}."
    chosen = next((point for point in measured if point.workers == analysis.verdict.workers), None)
    if chosen is not None:
        yield f"Typical run: {workers_text(chosen.workers, analysis.verdict.unit)} on {_nodes(chosen.nodes)}."
    gains = [_gain(one, analysis) for one in _doublings(analysis)]
    if gains:
        yield f"Decided by what a doubling gains: {'; '.join(gains)}."


def _asked(centre: Centre, analysis: Analysis) -> Iterator[str]:
    yield f"{centre.name} {centre.asks} ({centre.source}, read {centre.date})."
    if centre.at_least is not None:
        kept = [f"{_gain(one, analysis)}: {_kept(one, centre.at_least)}" for one in _doublings(analysis)]
        yield f"{'; '.join(kept)}." if kept else "No doubling was measured."
    if centre.unit is not None:
        yield f"It counts {centre.unit}: multiply node-h by the cores of a node."


def _gain(one: Threshold, analysis: Analysis) -> str:
    counts = {p.point.id: p.point.workers for p in analysis.points}
    before, after = (counts[name] for name in one.points)
    return f"{before} to {workers_text(after, analysis.verdict.unit)} {one.value:.2f}x"


def _kept(one: Threshold, at_least: float) -> str:
    """Whether a doubling keeps to the centre's line; undecided where the interval holds both answers."""
    if one.threshold != at_least or one.holds is None:
        return "too noisy to decide"
    return "kept" if one.holds else "not kept"


def _doublings(analysis: Analysis) -> list[Threshold]:
    """Of the series that the verdict is about."""
    told = set(analysis.verdict.points)
    return [t for t in analysis.thresholds if t.id == _DOUBLING and t.points and told.issuperset(t.points)]


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"
