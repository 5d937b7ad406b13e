"""Where the step goes, as Vega-Lite specifications: one bar per point, and when the gradients of a step are ready.

    step_s = compute_s + straggle_s + wire_s        input_s and optimizer_s are parts of compute_s

A bar is laid out as the step runs: input, the rest of compute, straggle, wire, optimizer. The thin bar beneath is
hidden_s: exchange that runs under computation and costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from paceline.records import Analysis, Estimate, Profile
from paceline.report.document import Figure, Spec
from paceline.report.series import series_names, short_name
from paceline.report.theme import BLUE, GREEN, INK, MUTED, ORANGE, PURPLE, VERMILLION, toggled, whole
from paceline.units import bytes_text, duration_text

__all__ = ["bucket_figure", "split_figure", "time_unit"]

_WIDTH = 640
_MOST_BARS = 40
_MOST_BUCKETS = 40
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
    rows = [row for p in shown for row in _parts(p, short_name(p.point, names[p.point], alone=alone), factor)]
    totals = [
        {
            "point": short_name(p.point, names[p.point], alone=alone),
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
        "time. Upright line: the step. Each is a median over launches, so parts need not add up to the step exactly."
    )
    if len(measured) > len(shown):
        caption += f" The first {len(shown)} of {len(measured)} points; the table has all."
    title = "The parts of one step"
    return Figure(
        "split", title, caption, whole(_split_spec(rows, totals, unit), description=title), wide=True
    )


def bucket_figure(analysis: Analysis) -> Figure | None:
    """When each gradient bucket is ready in one step, at the largest count where hooks saw it."""
    seen = [p for p in analysis.points if p.buckets and p.backward_end_s is not None]
    if not seen:
        return None
    profile = max(seen, key=lambda p: p.point.workers)
    end_s = profile.backward_end_s or 0.0
    factor, unit = time_unit([end_s])
    rows = [
        {
            "bucket": i + 1,
            "ready": bucket.ready_s * factor,
            "end": end_s * factor,
            "size": bytes_text(bucket.size_bytes),
            "text": duration_text(bucket.ready_s),
        }
        for i, bucket in enumerate(profile.buckets[:_MOST_BUCKETS])
    ]
    title = f"When gradients are ready, {profile.point.workers} workers"
    caption = (
        f"Time after the step began ({unit}) by gradient bucket (in the order of sending), at {profile.point.id}. "
        "Dot: the bucket's last gradient is ready on the latest worker, and its exchange can begin. Bar: the backward "
        "time left, under which that exchange can hide. Vertical line: the backward pass ends; what is sent after it "
        "is exposed."
    )
    if len(profile.buckets) > len(rows):
        caption += f" The first {len(rows)} of {len(profile.buckets)} buckets."
    return Figure("buckets", title, caption, whole(_bucket_spec(rows, unit), description=title), wide=True)


def time_unit(values_s: Sequence[float]) -> tuple[float, str]:
    """The factor from seconds, and the unit, that suit the largest of these durations."""
    largest = max(values_s, default=1.0)
    if largest < 1e-3:
        return 1e6, "µs"
    return (1e3, "ms") if largest < 1.0 else (1.0, "s")


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


def _bucket_spec(rows: list[dict[str, object]], unit: str) -> Spec:
    tooltip: list[Spec] = [
        {"field": "bucket", "type": "ordinal"},
        {"field": "size", "type": "nominal"},
        {"field": "text", "type": "nominal", "title": "ready after"},
    ]
    title = f"time after the step began ({unit})"
    x: Spec = {
        "field": "ready",
        "type": "quantitative",
        "title": title,
        "scale": {"zero": True},
        "axis": {"tickCount": 6},
    }
    y: Spec = {
        "field": "bucket",
        "type": "ordinal",
        "title": "bucket",
        "axis": {"ticks": False, "domain": False, "grid": False},
    }
    layers: list[Spec] = [
        {
            "mark": {"type": "bar", "height": 9, "color": PURPLE, "opacity": 0.4},
            "encoding": {"x": x, "x2": {"field": "end"}},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 75, "color": BLUE, "opacity": 1},
            "encoding": {"x": x, "tooltip": tooltip},
        },
        {
            "mark": {"type": "text", "align": "right", "dx": -9, "color": INK},
            "encoding": {"x": x, "text": {"field": "size"}},
        },
        {
            "data": {"values": rows[:1]},
            "mark": {"type": "rule", "strokeWidth": 1.5, "color": MUTED},
            "encoding": {"x": {"field": "end", "type": "quantitative"}, "y": None},
        },
        {
            "data": {"values": rows[:1]},
            "mark": {"type": "text", "align": "left", "dx": 6, "fontStyle": "italic"},
            "encoding": {"x": {"field": "end", "type": "quantitative"}, "text": {"value": "backward ends"}},
        },
    ]
    spec: Spec = {"width": _WIDTH, "height": {"step": 30}, "data": {"values": rows}}
    return {**spec, "encoding": {"y": y}, "layer": layers}


def _value(quantity: Estimate | None) -> float:
    return 0.0 if quantity is None else max(0.0, quantity.value)
