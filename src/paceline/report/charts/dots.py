"""Dots on charts whose horizontal axis is workers: measured and projected values that nobody can mix up.

measured    filled circles on a solid line, with a bar for the 90% interval
projected   hollow diamonds on a dashed line, in a band that fades outwards

Lines that share a count stand a little apart there, so that no interval hides another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paceline.records import Estimate
from paceline.report.charts.theme import COLOURS, INK, colour, toggled
from paceline.report.document import Spec

__all__ = [
    "Dot",
    "continued",
    "cut_off",
    "diamonds",
    "dots_chart",
    "first_lines",
    "line_names",
    "says_nothing",
]

_MOST_LABELS = 8
_FLAT = 0.05  # of the largest value
_APART = 1.03  # from one line to the next, as a factor on the doubling scale
_AT: Spec = {"field": "at", "type": "quantitative"}


@dataclass(frozen=True, slots=True)
class Dot:
    """One value on a chart."""

    line: str
    workers: int
    value: Estimate
    vague: bool = False  # projected, and no more than a rough guess


def dots_chart(
    dots: Sequence[Dot], *, label: Callable[[float], str], text: Callable[[Estimate], str], dy: int
) -> Spec:
    """Measured values: intervals, a solid line, filled circles, and their values where there is room."""
    names = line_names(dots)
    parameter, opacity = toggled("line")
    shade = colour(names)
    layers: list[Spec] = [
        {
            "params": [parameter],
            "mark": {"type": "rule", "strokeWidth": 2, "clip": True},
            "encoding": {
                "x": _AT,
                "y": {"field": "low"},
                "y2": {"field": "high"},
                "color": shade,
                "opacity": opacity,
            },
        },
        {
            "mark": {"type": "line", "strokeWidth": 2},
            "encoding": {"x": _AT, "color": shade, "opacity": opacity},
        },
        {
            "mark": {"type": "point", "shape": "circle", "filled": True, "size": 70},
            "encoding": {"x": _AT, "color": shade, "opacity": opacity, "tooltip": _TOOLTIP},
        },
    ]
    if len(names) == 1 and len(dots) <= _MOST_LABELS:
        layers.append(
            {
                "transform": [{"filter": "datum.low === null || datum.low !== datum.high"}],
                "mark": {"type": "text", "align": "left", "dx": 8, "dy": dy, "color": INK, "fontWeight": 600},
                "encoding": {"x": _AT, "text": {"field": "label"}},
            }
        )
    rows = [_row(dot, names, text(dot.value), label(dot.value.value)) for dot in dots]
    return {"data": {"values": rows}, "layer": layers}


def diamonds(
    dots: Sequence[Dot], names: Sequence[str], *, text: Callable[[Estimate], str], rising: bool
) -> list[Spec]:
    """Layers for projected values: intervals, hollow diamonds, and a word where no line passes.

    Lines that are `rising` come from below, so the word stands to the left of the first diamond, else to the right.
    """
    if not dots:
        return []
    word = "rough guess" if all(dot.vague for dot in dots) else "predicted"
    rows = [_row(dot, names, text(dot.value), word) for dot in dots]
    _, opacity = toggled("line")
    shade = colour(names)
    top = max(rows, key=lambda row: (-int(str(row["workers"])), float(str(row["value"]))))
    beside: Spec = {"align": "right", "dx": -10} if rising else {"align": "left", "dx": 10}
    return [
        {
            "data": {"values": rows},
            "mark": {"type": "rule", "strokeDash": [2, 3], "strokeWidth": 1.5, "clip": True},
            "encoding": {
                "x": _AT,
                "y": {"field": "low"},
                "y2": {"field": "high"},
                "color": shade,
                "opacity": opacity,
            },
        },
        {
            "data": {"values": rows},
            "mark": {
                "type": "point",
                "shape": "diamond",
                "filled": False,
                "size": 90,
                "strokeWidth": 2,
                "clip": True,
            },
            "encoding": {"x": _AT, "color": shade, "opacity": opacity, "tooltip": _TOOLTIP},
        },
        {
            "data": {"values": [top]},
            "mark": {"type": "text", "fontStyle": "italic", "dy": -14, **beside},
            "encoding": {"x": _AT, "text": {"field": "label"}},
        },
    ]


def continued(measured: Sequence[Dot], projected: Sequence[Dot]) -> list[Spec]:
    """Bands and dashed lines that lead from the last measured dot of a line through its projections."""
    layers: list[Spec] = []
    names = line_names(measured)
    for i, name in enumerate(names):
        own = [dot for dot in projected if dot.line == name]
        if not own:
            continue
        before = [dot for dot in measured if dot.line == name and dot.workers < own[0].workers]
        dots = [*before[-1:], *own]
        shade = COLOURS[i % len(COLOURS)]
        rows = [_row(dot, names) for dot in dots]
        band = [row | {end: row["value"] for end in ("low", "high") if row[end] is None} for row in rows]
        data: Spec = {"values": band}
        fading = [{"offset": 0, "color": shade}, {"offset": 1, "color": f"{shade}1a"}]
        gradient: Spec = {"gradient": "linear", "x1": 0, "y1": 0, "x2": 1, "y2": 0, "stops": fading}
        layers += [
            {
                "data": data,
                "mark": {"type": "area", "color": gradient, "opacity": 0.28, "clip": True},
                "encoding": {"x": _AT, "y": {"field": "low"}, "y2": {"field": "high"}},
            },
            {
                "data": {"values": rows},
                "mark": {
                    "type": "line",
                    "strokeDash": [2, 6] if all(dot.vague for dot in own) else [6, 4],
                    "strokeWidth": 2,
                    "color": shade,
                    "clip": True,
                },
                "encoding": {"x": _AT},
            },
        ]
    return layers


def first_lines(dots: Sequence[Dot], *, keep: str | None = None) -> tuple[list[Dot], str]:
    """The dots of as many lines as there are colours, and a sentence for the caption where there are more lines.

    `keep` is the line that the verdict is about: a picture without it would show another story.
    """
    names = line_names(dots)
    if len(names) <= len(COLOURS):
        return list(dots), ""
    shown = names[: len(COLOURS)]
    left = f" The first {len(shown)} of {len(names)} lines; the table has all."
    if keep in names and keep not in shown:
        shown = [*shown[:-1], keep]
        left = f" {len(shown)} of {len(names)} lines, that of the verdict among them; the table has all."
    return [dot for dot in dots if dot.line in shown], left


def says_nothing(dots: Sequence[Dot]) -> bool:
    """One count, or values that are nearly the same at all of them: the table has them, a picture would add nothing."""
    values = [dot.value.value for dot in dots]
    several = len({dot.workers for dot in dots}) > 1
    return not several or max(values) - min(values) < _FLAT * max(values)


def cut_off(dots: Sequence[Dot], bottom: float, top: float) -> str:
    """A sentence for the caption where an interval does not fit between bottom and top."""
    ends = [(dot.value.low, dot.value.high) for dot in dots]
    if any((bottom if low is None else low) < bottom or (high or 0) > top for low, high in ends):
        return " Intervals that reach beyond the frame are cut off there; the table has their ends."
    return ""


def line_names(dots: Sequence[Dot]) -> list[str]:
    return list(dict.fromkeys(dot.line for dot in dots))


def _row(dot: Dot, names: Sequence[str], text: str = "", label: str = "") -> dict[str, object]:
    place = names.index(dot.line) - (len(names) - 1) / 2 if dot.line in names else 0.0
    return {
        "line": dot.line,
        "workers": dot.workers,
        "at": dot.workers * _APART**place,
        "value": dot.value.value,
        "low": dot.value.low,
        "high": dot.value.high,
        "text": text,
        "label": label,
        "observations": dot.value.n,
    }


_TOOLTIP: list[Spec] = [
    {"field": "workers", "type": "quantitative", "title": "workers"},
    {"field": "text", "type": "nominal", "title": "value"},
    {"field": "observations", "type": "quantitative", "title": "observations"},
]
