"""The gradient buckets of one step, as Vega-Lite specifications: when each is ready, sent and done, and which binds."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.core.units import bytes_text, duration_text, workers_text
from paceline.records import Analysis, Profile
from paceline.report.charts.steps import time_unit
from paceline.report.charts.theme import BLUE, INK, MUTED, PURPLE, whole
from paceline.report.document import Figure, Spec

__all__ = ["bucket_figure"]

_WIDTH = 640
_MOST_BUCKETS = 40


def bucket_figure(analysis: Analysis) -> Figure | None:
    """The buckets at the largest count where hooks saw them; when they were sent too, where the exchange was timed."""
    seen = [p for p in analysis.points if p.buckets and p.backward_end_s is not None]
    if not seen:
        return None
    profile = max(seen, key=lambda p: p.point.workers)
    end_s = profile.backward_end_s or 0.0
    factor, unit = time_unit([end_s])
    rows = _sent(profile, factor) if profile.timeline else _ready(profile, factor)
    title = f"The gradient buckets of one step, {workers_text(profile.point.workers)}"
    how = "Dot: its last gradient is ready on the latest worker. "
    if profile.timeline:
        how += (
            "Bar: it is on its way. Buckets leave in order; the measured time is shared out by size. "
            "From the limiting bucket on there is no pause. "
        )
    else:
        how += "Bar: the backward time left, under which its communication can hide. "
    how += "Vertical line: the backward pass ends; what is sent after it costs time."
    if len(profile.buckets) > len(rows):
        how += f" The first {len(rows)} of {len(profile.buckets)} buckets."
    spec = _spec(rows, end_s * factor, unit)
    caption = f"When each gradient bucket is ready and sent, after the step began ({unit})."
    return Figure("buckets", title, caption, whole(spec, description=title), wide=True, how=how)


def _sent(profile: Profile, factor: float) -> list[dict[str, object]]:
    return [
        {
            "bucket": i + 1,
            "ready": bucket.ready_s * factor,
            "left": bucket.ready_s * factor,
            "from": bucket.sent_s * factor,
            "to": bucket.done_s * factor,
            "size": bytes_text(bucket.size_bytes),
            "ready_text": duration_text(bucket.ready_s),
            "sent_text": duration_text(bucket.sent_s),
            "done_text": duration_text(bucket.done_s),
            "binds": "binds" if bucket.binds else "",
        }
        for i, bucket in enumerate(profile.timeline[:_MOST_BUCKETS])
    ]


def _ready(profile: Profile, factor: float) -> list[dict[str, object]]:
    """Without times of sending: the bar is what is left of the backward pass, none where it is over."""
    end_s = profile.backward_end_s or 0.0
    return [
        {
            "bucket": i + 1,
            "ready": bucket.ready_s * factor,
            "left": min(bucket.ready_s, end_s) * factor,
            "from": bucket.ready_s * factor,
            "to": max(bucket.ready_s, end_s) * factor,
            "size": bytes_text(bucket.size_bytes),
            "ready_text": duration_text(bucket.ready_s),
            "binds": "",
        }
        for i, bucket in enumerate(profile.buckets[:_MOST_BUCKETS])
    ]


def _spec(rows: Sequence[dict[str, object]], end: float, unit: str) -> Spec:
    tooltip: list[Spec] = [
        {"field": "bucket", "type": "ordinal"},
        {"field": "size", "type": "nominal"},
        {"field": "ready_text", "type": "nominal", "title": "ready after"},
    ]
    if rows and "sent_text" in rows[0]:
        tooltip += [
            {"field": "sent_text", "type": "nominal", "title": "sent after"},
            {"field": "done_text", "type": "nominal", "title": "done after"},
        ]
    x: Spec = {
        "field": "ready",
        "type": "quantitative",
        "title": f"time after the step began ({unit})",
        "scale": {"zero": True},
        "axis": {"tickCount": 6},
    }
    y: Spec = {
        "field": "bucket",
        "type": "ordinal",
        "title": "bucket",
        "axis": {"ticks": False, "domain": False, "grid": False},
    }
    backward: Spec = {"values": [{"end": end}]}
    layers: list[Spec] = [
        {
            "mark": {"type": "bar", "height": 9, "color": PURPLE, "opacity": 0.5},
            "encoding": {"x": {**x, "field": "from"}, "x2": {"field": "to"}, "tooltip": tooltip},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 75, "color": BLUE, "opacity": 1},
            "encoding": {"x": x, "tooltip": tooltip},
        },
        {
            "mark": {"type": "text", "align": "right", "dx": -9, "color": INK},
            "encoding": {"x": {**x, "field": "left"}, "text": {"field": "size"}},
        },
        {
            "mark": {"type": "text", "align": "left", "dx": 6, "color": INK, "fontWeight": 600},
            "encoding": {"x": {**x, "field": "to"}, "text": {"field": "binds"}},
        },
        {
            "data": backward,
            "mark": {"type": "rule", "strokeWidth": 1.5, "color": MUTED},
            "encoding": {"x": {"field": "end", "type": "quantitative"}, "y": None},
        },
        {
            "data": backward,
            "mark": {"type": "text", "align": "right", "dx": -6, "dy": -6, "fontStyle": "italic"},
            "encoding": {
                "x": {"field": "end", "type": "quantitative"},
                "y": {"value": 0},
                "text": {"value": "backward ends"},
            },
        },
    ]
    spec: Spec = {"width": _WIDTH, "height": {"step": 30}, "data": {"values": list(rows)}}
    return {**spec, "encoding": {"y": y}, "layer": layers}
