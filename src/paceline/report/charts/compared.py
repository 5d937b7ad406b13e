"""Several studies side by side: throughput and efficiency against workers, one line per study and series."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from paceline.core.units import estimate_text, percent_text, rough_text
from paceline.records import Analysis, Estimate, Profile, series_names
from paceline.report.charts.dots import Dot, cut_off, dots_chart, first_lines
from paceline.report.charts.theme import whole, worker_axis
from paceline.report.document import Column, Figure, Section, Spec, Table
from paceline.report.tables.cells import speedup_cells

__all__ = ["compared_section"]

_WIDTH, _HEIGHT = 430, 300


def compared_section(studies: Sequence[tuple[str, Analysis]]) -> Section:
    """The section that stands before the studies themselves."""
    names = _distinct([name for name, _ in studies])
    lines = [
        (_line(name, line, alone=len(set(own.values())) == 1), profile)
        for name, (_, analysis) in zip(names, studies, strict=True)
        for own in [series_names([p.point for p in analysis.points])]
        for profile in analysis.points
        for line in [own[profile.point]]
    ]
    figures = [
        _figure("throughput", "Throughput", "samples/s", lines, lambda p: p.throughput_per_s, percent=False),
        _figure("efficiency", "Efficiency", "efficiency", lines, lambda p: p.efficiency_ratio, percent=True),
    ]
    rows = tuple(
        (
            line,
            str(profile.point.workers),
            rough_text(profile.throughput_per_s),
            *speedup_cells(profile),
            profile.state,
        )
        for line, profile in sorted(lines, key=lambda item: item[1].point.workers)
    )
    numbers = ("workers", "samples/s", "speed-up", "efficiency")
    columns = (Column("study", number=False), *(Column(n) for n in numbers), Column("state", number=False))
    table = Table("compared", "The studies side by side, by worker count.", columns, rows)
    return Section("compared", "Compared", (), tuple(f for f in figures if f is not None), (table,))


def _figure(
    name: str,
    title: str,
    axis: str,
    lines: Sequence[tuple[str, Profile]],
    quantity: Callable[[Profile], Estimate | None],
    *,
    percent: bool,
) -> Figure | None:
    dots = [
        Dot(line, profile.point.workers, value)
        for line, profile in sorted(lines, key=lambda item: item[1].point.workers)
        if (value := quantity(profile)) is not None
    ]
    if not dots:
        return None
    dots, left = first_lines(dots)
    top = max(dot.value.value for dot in dots) * 1.15
    text = percent_text if percent else estimate_text
    layers = [dots_chart(dots, label=lambda value: "", text=text, dy=-11)]
    y: Spec = {
        "field": "value",
        "type": "quantitative",
        "title": axis,
        "scale": {"domain": [0, top], "nice": False},
        "axis": {"tickCount": 5, "format": ".0%" if percent else "~s"},
    }
    encoding: Spec = {"x": worker_axis([dot.workers for dot in dots]), "y": y}
    spec: Spec = {"width": _WIDTH, "height": _HEIGHT, "encoding": encoding, "layer": layers}
    unit = "percent" if percent else "samples per second"
    caption = f"{title} ({unit}) against workers, one line per study, with 90% intervals over runs."
    how = (cut_off(dots, 0.0, top) + left).strip()
    return Figure(f"compared-{name}", title, caption, whole(spec, description=title), how=how)


def _line(study: str, line: str, *, alone: bool) -> str:
    return study if alone else f"{study}: {line}"


def _distinct(names: Sequence[str]) -> list[str]:
    """Names that repeat get a number."""
    return [f"{name} ({i})" if names.count(name) > 1 else name for i, name in enumerate(names, 1)]
