"""Heat maps of two-way grids: batch × workers, one varied flag × workers, two varied flags. Time, metric and memory.

A grid is drawn only where nothing else differs from cell to cell. A cell without a measurement says how it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paceline.core.units import bytes_text, duration_text, estimate_text
from paceline.records import Analysis, Estimate, Point, Profile, series_names
from paceline.report.charts.steps import time_unit
from paceline.report.charts.theme import SKY, whole
from paceline.report.document import Figure, Spec

__all__ = ["grid_figures"]

_PALE, _FAILED = "#e8f1f8", "#f5d5c0"  # both light enough for dark text, on a dark page too
_ALIKE = 0.9  # of the largest value
_MOST_CELLS = 400  # nobody reads more; the table has them


@dataclass(frozen=True, slots=True)
class _Axis:
    """One direction of a grid: its name, and a point's place along it."""

    name: str
    unit: str
    place: Callable[[Point], object]


_WORKERS = _Axis("workers", "count", lambda point: point.workers)
_BATCH = _Axis("per-worker batch", "samples", lambda point: point.per_worker_batch)


def grid_figures(analysis: Analysis) -> tuple[Figure, ...]:
    """Every grid that the study spans, at least two by two."""
    found: list[Figure] = []
    for i, (x, y, points, where) in enumerate(_grids(analysis.points)):
        if len(points) <= _MOST_CELLS:
            found += _figures(analysis, x, y, points, where, prefix="grid" if i == 0 else f"grid{i + 1}")
    return tuple(found)


def _grids(profiles: Sequence[Profile]) -> list[tuple[_Axis, _Axis, list[Profile], str]]:
    found = []
    batches = [p for p in profiles if p.point.scaling == "weak" and p.point.per_worker_batch is not None]
    names = set(series_names([p.point for p in batches]).values())
    if _spans(batches, _WORKERS, _BATCH) and len(names) == len({p.point.per_worker_batch for p in batches}):
        found.append((_WORKERS, _BATCH, batches, ""))
    flags = [_flag(name) for name in dict.fromkeys(name for p in profiles for name, _ in p.point.varied)]
    several = [flag for flag in flags if len({flag.place(p.point) for p in profiles}) > 1]
    if len(several) == 1 and _only(profiles, _WORKERS, several[0]):
        found.append((_WORKERS, several[0], list(profiles), ""))
    if len(several) == 2:
        most = max(p.point.workers for p in profiles)
        there = [p for p in profiles if p.point.workers == most]
        if _only(there, several[0], several[1]):
            found.append((several[0], several[1], there, f" at {most} worker{'' if most == 1 else 's'}"))
    return found


def _flag(name: str) -> _Axis:
    return _Axis(name.lstrip("-"), "as given", lambda point: dict(point.varied).get(name))


def _spans(profiles: Sequence[Profile], x: _Axis, y: _Axis) -> bool:
    return all(len({axis.place(p.point) for p in profiles}) > 1 for axis in (x, y))


def _only(profiles: Sequence[Profile], x: _Axis, y: _Axis) -> bool:
    """Whether the points span both axes and nothing else tells two of them apart."""
    cells = [(x.place(p.point), y.place(p.point)) for p in profiles]
    return _spans(profiles, x, y) and len(set(cells)) == len(cells)


def _metric(analysis: Analysis) -> str:
    """The name of what was reached, as a title."""
    name = None if analysis.convergence is None else analysis.convergence.metric
    text = (name or "accuracy").replace("_", " ")
    return text[:1].upper() + text[1:]


def _figures(
    analysis: Analysis, x: _Axis, y: _Axis, points: Sequence[Profile], where: str, *, prefix: str
) -> list[Figure]:
    factor, unit = time_unit([p.step_s.value for p in points if p.step_s])
    best = (
        {} if analysis.convergence is None else {c.point: c.metric for c in analysis.convergence.comparisons}
    )
    wanted: tuple[
        tuple[str, str, str, Callable[[Profile], Estimate | None], float, Callable[[Estimate], str]], ...
    ]
    wanted = (
        ("step", "Step time", unit, lambda p: p.step_s, factor, lambda e: duration_text(e.value)),
        (
            "metric",
            _metric(analysis),
            "as measured",
            lambda p: best.get(p.point.id) or p.accuracy,
            1.0,
            _number,
        ),
        ("memory", "Peak memory", "bytes", lambda p: p.peak_memory_bytes, 1.0, lambda e: bytes_text(e.value)),
    )
    found = []
    for name, title, measure, quantity, scale, text in wanted:
        rows = [_cell(p, x, y, quantity(p), scale, text) for p in points]
        if any(row["value"] is not None for row in rows):
            caption = f"{title} ({measure}) for each {y.name} and {x.name}{where}: the darker, the larger."
            named = f"{title} by {_short(y)} and {_short(x)}"
            spec = _spec(rows, x, y)
            found.append(Figure(f"{prefix}-{name}", named, caption, whole(spec, description=named)))
    return found


def _cell(
    profile: Profile,
    x: _Axis,
    y: _Axis,
    value: Estimate | None,
    factor: float,
    text: Callable[[Estimate], str],
) -> dict[str, object]:
    return {
        "x": x.place(profile.point),
        "y": y.place(profile.point),
        "value": None if value is None else value.value * factor,
        "text": (profile.state if profile.state != "ok" else "–") if value is None else text(value),
    }


def _spec(rows: Sequence[dict[str, object]], x: _Axis, y: _Axis) -> Spec:
    shade: Spec = {
        "field": "value",
        "type": "quantitative",
        "scale": {"range": [_PALE, SKY], "zero": _alike(rows)},
        "legend": None,
    }
    down = "descending" if all(isinstance(row["y"], int) for row in rows) else None
    right = "ascending" if all(isinstance(row["x"], int) for row in rows) else None
    encoding: Spec = {
        "x": {"field": "x", "type": "ordinal", "title": x.name, "sort": right, "axis": {"labelAngle": 0}},
        "y": {"field": "y", "type": "ordinal", "title": y.name, "sort": down},
    }
    layers: list[Spec] = [
        {"mark": {"type": "rect"}, "encoding": {"color": shade}},
        {
            "data": {"values": [row for row in rows if row["value"] is None]},
            "mark": {"type": "rect", "color": _FAILED},
        },
        {"mark": {"type": "text", "color": "#101418"}, "encoding": {"text": {"field": "text"}}},
    ]
    spec: Spec = {"width": {"step": 84}, "height": {"step": 40}, "data": {"values": list(rows)}}
    return {**spec, "encoding": encoding, "layer": layers}


def _alike(rows: Sequence[dict[str, object]]) -> bool:
    """Whether values differ by less than a tenth: shades from the least of them would show 371 beside 375 as all."""
    values = [abs(float(str(row["value"]))) for row in rows if row["value"] is not None]
    return min(values, default=0.0) >= _ALIKE * max(values, default=0.0)


def _number(quantity: Estimate) -> str:
    return estimate_text(Estimate(quantity.value))


def _short(axis: _Axis) -> str:
    return "batch" if axis is _BATCH else axis.name
