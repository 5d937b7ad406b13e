"""Where the step goes, as Vega-Lite specifications: one bar per point.

    step_s = compute_s + straggle_s + bubble_s + wire_s        input_s and optimizer_s are parts of compute_s

A bar is laid out as the step runs: input, the rest of compute, straggle, wire, optimizer. The thin bar beneath is
hidden_s: communication that runs under computation and costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from paceline.core.units import duration_text
from paceline.core.words import PARTS
from paceline.records import Analysis, Estimate, Profile, series_names
from paceline.report.charts.series import short_name
from paceline.report.charts.theme import BLUE, GREEN, INK, ORANGE, PURPLE, SKY, VERMILLION, toggled, whole
from paceline.report.document import Figure, Spec

__all__ = ["split_figure", "time_unit"]

_WIDTH, _NARROW = 640, 370
_MOST_BARS = 40
_ROOM = 0.4  # of the chart's width, for the words "hidden communication"
_HIDDEN = PARTS["hidden"]
_PARTS = {
    PARTS["input"]: ORANGE,
    PARTS["compute"]: BLUE,
    PARTS["straggle"]: VERMILLION,
    PARTS["bubble"]: SKY,
    PARTS["wire"]: PURPLE,
    PARTS["optimizer"]: GREEN,
    _HIDDEN: PURPLE,
}


def split_figure(analysis: Analysis, *, only: Sequence[str] | None = None) -> Figure | None:
    """One bar per measured point, in half a page's width for `only` some of them; None where no point has a split."""
    measured = [p for p in analysis.points if p.step_s is not None and p.compute_s is not None]
    if only is not None:
        measured = [p for p in measured if p.point.id in only]
    if not measured:
        return None
    shown = measured[:_MOST_BARS]
    factor, unit = time_unit([p.step_s.value for p in shown if p.step_s])
    names = series_names([p.point for p in measured])
    alone = len(set(names.values())) == 1
    unsound = {p.point.id for p in shown if _contradicts(analysis, p)}
    bars = {
        p.point.id: short_name(p, names[p.point], alone=alone) + " (?)" * (p.point.id in unsound)
        for p in shown
    }
    rows = [row for p in shown for row in _parts(p, bars[p.point.id], factor)]
    hidden = any(row["part"] == _HIDDEN for row in rows)
    totals = [
        {
            "point": bars[p.point.id],
            "end": p.step_s.value * factor,
            "text": duration_text(p.step_s.value),
        }
        for p in shown
        if p.step_s
    ]
    how = "Thin bar: communication hidden under computing, it costs no time. " if hidden else ""
    how += "Data wait and optimizer are parts of compute."
    if unsound:
        how += " (?): the step could not be split reliably."
    if len(measured) > len(shown):
        how += f" The first {len(shown)} of {len(measured)} settings; the table has all."
    title = "Where the step goes" if only is not None else "The parts of one step"
    width, columns = (_WIDTH, 5) if only is None else (_NARROW, 3)
    drawn = whole(_split_spec(rows, totals, unit, width, columns), description=title)
    name = "split" if only is None else "split-verdict"
    caption = f"Time of one step ({unit}), in the order it runs."
    return Figure(name, title, caption, drawn, wide=only is None, how=how)


def time_unit(values_s: Sequence[float]) -> tuple[float, str]:
    """The factor from seconds, and the unit, that suit the largest of these durations."""
    largest = max(values_s, default=1.0)
    if largest < 1e-3:
        return 1e6, "µs"
    return (1e3, "ms") if largest < 1.0 else (1.0, "s")


def _contradicts(analysis: Analysis, profile: Profile) -> bool:
    """Whether a check has found that the parts of this point cannot all be true."""
    return any(f.id == "split-contradicts" and f.point == profile.point.id for f in analysis.findings)


def _parts(profile: Profile, name: str, factor: float) -> list[dict[str, object]]:
    """The parts of one bar, each with its own number; a part that is nothing is left out."""
    known = {
        PARTS["input"]: _value(profile.input_s),
        PARTS["compute"]: _value(profile.compute_s),
        PARTS["straggle"]: _value(profile.straggle_s),
        PARTS["bubble"]: _value(profile.bubble_s),
        PARTS["wire"]: _value(profile.wire_s),
        PARTS["optimizer"]: _value(profile.optimizer_s),
    }
    inside = known[PARTS["input"]] + known[PARTS["optimizer"]]
    rows: list[dict[str, object]] = []
    at = 0.0
    for part, value in known.items():
        length = max(0.0, value - inside) if part == PARTS["compute"] else value
        if part == PARTS["straggle"] and profile.hidden_s is not None and profile.hidden_s.value > 0:
            hidden = profile.hidden_s.value
            rows.append(_bar(name, _HIDDEN, max(0.0, at - hidden), at, hidden, factor))
        if length > 0:
            rows.append(_bar(name, part, at, at + length, value, factor))
        at += length
    return rows


def _bar(name: str, part: str, start: float, end: float, value: float, factor: float) -> dict[str, object]:
    return {
        "point": name,
        "part": part,
        "start": start * factor,
        "end": end * factor,
        "text": duration_text(value),
    }


def _split_spec(
    rows: list[dict[str, object]], totals: list[dict[str, object]], unit: str, width: int, columns: int
) -> Spec:
    parameter, opacity = toggled("part")
    used = {row["part"] for row in rows}
    parts = [part for part in _PARTS if part in used and part != _HIDDEN]
    shade: Spec = {
        "field": "part",
        "type": "nominal",
        "scale": {"domain": parts, "range": [_PARTS[part] for part in parts]},
        "legend": {"title": None, "symbolType": "square", "columns": columns},
    }
    tooltip: list[Spec] = [
        {"field": "point", "type": "nominal"},
        {"field": "part", "type": "nominal"},
        {"field": "text", "type": "nominal", "title": "time"},
    ]
    names = [str(total["point"]) for total in totals]
    x: Spec = {
        "field": "start",
        "type": "quantitative",
        "title": f"time of one step ({unit})",
        "axis": {"tickCount": 6},
    }
    hidden = [row for row in rows if row["part"] == _HIDDEN]
    layers: list[Spec] = [
        {
            "data": {"values": [row for row in rows if row["part"] != _HIDDEN]},
            "params": [parameter],
            "mark": {"type": "bar", "height": 18, "yOffset": -4, "stroke": "white", "strokeWidth": 0.5},
            "encoding": {
                "x": x,
                "x2": {"field": "end"},
                "color": shade,
                "opacity": opacity,
                "tooltip": tooltip,
            },
        },
        {
            "data": {"values": totals},
            "mark": {"type": "tick", "color": INK, "height": 24, "thickness": 2, "yOffset": -4, "opacity": 1},
            "encoding": {"x": {"field": "end", "type": "quantitative"}},
        },
        {
            "data": {"values": totals},
            "mark": {
                "type": "text",
                "align": "left",
                "dx": 6,
                "yOffset": -4,
                "color": INK,
                "fontWeight": 600,
            },
            "encoding": {"x": {"field": "end", "type": "quantitative"}, "text": {"field": "text"}},
        },
    ]
    if hidden:
        before = _start(hidden[0]) > max(map(_end, totals)) * _ROOM  # its name has room to the left of it
        side: Spec = {"align": "right", "dx": -5} if before else {"align": "left", "dx": 5}
        layers += [
            {
                "data": {"values": hidden},
                "mark": {"type": "bar", "height": 5, "yOffset": 10, "color": PURPLE, "opacity": 0.55},
                "encoding": {"x": x, "x2": {"field": "end"}, "tooltip": tooltip},
            },
            {
                "data": {"values": hidden[:1]},
                "mark": {"type": "text", **side, "yOffset": 11, "fontSize": 11},
                "encoding": {
                    "x": {"field": "start" if before else "end", "type": "quantitative"},
                    "text": {"value": _HIDDEN},
                },
            },
        ]
    y: Spec = {
        "field": "point",
        "type": "nominal",
        "sort": names,
        "title": None,
        "axis": {"labelColor": INK, "ticks": False, "domain": False, "labelLimit": 260, "labelOffset": -4},
    }
    return {"width": width, "height": {"step": 42}, "encoding": {"y": y}, "layer": layers}


def _start(bar: dict[str, object]) -> float:
    return float(str(bar["start"]))


def _end(bar: dict[str, object]) -> float:
    return float(str(bar["end"]))


def _value(quantity: Estimate | None) -> float:
    return 0.0 if quantity is None else max(0.0, quantity.value)
