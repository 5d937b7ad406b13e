"""Where the step goes, as Vega-Lite specifications: one bar per point.

    step_s = compute_s + straggle_s + wire_s        input_s and optimizer_s are parts of compute_s

A bar is laid out as the step runs: input, the rest of compute, straggle, wire, optimizer. The thin bar beneath is
hidden_s: exchange that runs under computation and costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from paceline.records import Analysis, Estimate, Profile
from paceline.report.document import Figure, Spec
from paceline.report.series import series_names, short_name
from paceline.report.theme import BLUE, GREEN, INK, ORANGE, PURPLE, VERMILLION, toggled, whole
from paceline.units import duration_text

__all__ = ["split_figure", "time_unit"]

_WIDTH = 640
_MOST_BARS = 40
_PARTS = {
    "input": ORANGE,
    "compute": BLUE,
    "straggle": VERMILLION,
    "wire": PURPLE,
    "optimizer": GREEN,
    "hidden exchange": PURPLE,
}


def split_figure(analysis: Analysis) -> Figure | None:
    """One bar per measured point; None where no point has a split."""
    measured = [p for p in analysis.points if p.step_s is not None and p.compute_s is not None]
    if not measured:
        return None
    shown = measured[:_MOST_BARS]
    factor, unit = time_unit([p.step_s.value for p in shown if p.step_s])
    names = series_names([p.point for p in measured])
    alone = len(set(names.values())) == 1
    unsound = {p.point.id for p in shown if _contradicts(analysis, p)}
    bars = {
        p.point.id: short_name(p.point, names[p.point], alone=alone) + " (?)" * (p.point.id in unsound)
        for p in shown
    }
    rows = [row for p in shown for row in _parts(p, bars[p.point.id], factor)]
    totals = [
        {
            "point": bars[p.point.id],
            "end": p.step_s.value * factor,
            "text": duration_text(p.step_s.value),
        }
        for p in shown
        if p.step_s
    ]
    caption = (
        f"Time of one step ({unit}) by point, laid out as the step runs. Compute is what the step would cost if "
        "exchange were free and nobody waited; input and optimizer are parts of it. Straggle is waiting for late "
        "workers, wire is waiting for the network. The thin bar is exchange hidden under computation: it costs no "
        "time. Upright line: the step. The step is the median over launches, its parts are those of that launch."
    )
    if unsound:
        caption += " (?): parts that contradict one another; only the step itself is sound, see the findings."
    if len(measured) > len(shown):
        caption += f" The first {len(shown)} of {len(measured)} points; the table has all."
    title = "The parts of one step"
    return Figure(
        "split", title, caption, whole(_split_spec(rows, totals, unit), description=title), wide=True
    )


def time_unit(values_s: Sequence[float]) -> tuple[float, str]:
    """The factor from seconds, and the unit, that suit the largest of these durations."""
    largest = max(values_s, default=1.0)
    if largest < 1e-3:
        return 1e6, "µs"
    return (1e3, "ms") if largest < 1.0 else (1.0, "s")


def _contradicts(analysis: Analysis, profile: Profile) -> bool:
    """Whether a check has found that the parts of this point cannot all be true."""
    here = f"{profile.point.id}: "
    return any(f.id == "split-contradicts" and f.message.startswith(here) for f in analysis.findings)


def _parts(profile: Profile, name: str, factor: float) -> list[dict[str, object]]:
    """The parts of one bar, each with its own number; a part that is nothing is left out."""
    known = {
        "input": _value(profile.input_s),
        "compute": _value(profile.compute_s),
        "straggle": _value(profile.straggle_s),
        "wire": _value(profile.wire_s),
        "optimizer": _value(profile.optimizer_s),
    }
    inside = known["input"] + known["optimizer"]
    rows: list[dict[str, object]] = []
    at = 0.0
    for part, value in known.items():
        length = max(0.0, value - inside) if part == "compute" else value
        if part == "straggle" and profile.hidden_s is not None and profile.hidden_s.value > 0:
            hidden = profile.hidden_s.value
            rows.append(_bar(name, "hidden exchange", max(0.0, at - hidden), at, hidden, factor))
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


def _split_spec(rows: list[dict[str, object]], totals: list[dict[str, object]], unit: str) -> Spec:
    parameter, opacity = toggled("part")
    used = {row["part"] for row in rows}
    parts = [part for part in _PARTS if part in used and part != "hidden exchange"]
    shade: Spec = {
        "field": "part",
        "type": "nominal",
        "scale": {"domain": parts, "range": [_PARTS[part] for part in parts]},
        "legend": {"title": None, "symbolType": "square"},
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
    hidden = [row for row in rows if row["part"] == "hidden exchange"]
    layers: list[Spec] = [
        {
            "data": {"values": [row for row in rows if row["part"] != "hidden exchange"]},
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
        layers += [
            {
                "data": {"values": hidden},
                "mark": {"type": "bar", "height": 5, "yOffset": 10, "color": PURPLE, "opacity": 0.55},
                "encoding": {"x": x, "x2": {"field": "end"}, "tooltip": tooltip},
            },
            {
                "data": {"values": hidden[:1]},
                "mark": {"type": "text", "align": "left", "dx": 5, "yOffset": 11, "fontSize": 11},
                "encoding": {
                    "x": {"field": "end", "type": "quantitative"},
                    "text": {"value": "hidden exchange"},
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
    return {"width": _WIDTH, "height": {"step": 42}, "encoding": {"y": y}, "layer": layers}


def _value(quantity: Estimate | None) -> float:
    return 0.0 if quantity is None else max(0.0, quantity.value)
