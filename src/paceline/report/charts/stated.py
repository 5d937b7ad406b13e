"""A table's own columns of computing, communication and bandwidth, drawn as they were stated.

Computing and communication stand one upon the other, and a mark says what was measured: a bar beyond its mark states
more than there was time for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from paceline.core.units import TIME_OF, duration_text, rate_text
from paceline.records import Analysis, Estimate, Profile, TimeKind, series_names
from paceline.report.charts.points import against_workers
from paceline.report.charts.series import short_name
from paceline.report.charts.steps import time_unit
from paceline.report.charts.theme import BLUE, INK, PURPLE, whole
from paceline.report.document import Figure, Spec

__all__ = ["stated_bandwidth_figure", "stated_kind", "stated_parts_figure", "stated_whole"]

_WIDTH = 370
_MOST_BARS = 20
_COMPUTE, _EXCHANGE = "computing", "communication"


def stated_kind(analysis: Analysis) -> TimeKind:
    """What the times of the table are of."""
    named = analysis.source.get("time_kind")
    return next((kind for kind in get_args(TimeKind) if kind == named), "step")


def stated_whole(profile: Profile, kind: TimeKind) -> Estimate | None:
    """The time that was measured of the same piece of work."""
    return {"step": profile.step_s, "epoch": profile.epoch_s, "job": profile.job_s, "sample": None}[kind]


def stated_parts_figure(analysis: Analysis, *, only: Sequence[str] | None = None) -> Figure | None:
    """Computing and communication of every setting that states them; of `only` some settings beside another chart."""
    found = [p for p in analysis.points if p.stated_compute_s or p.stated_exchange_s]
    if only is not None:
        found = [p for p in found if p.point.id in only]
    if not found or not any(p.stated_exchange_s for p in found):
        return None
    shown, kind = found[:_MOST_BARS], stated_kind(analysis)
    names = series_names([p.point for p in found])
    alone = len(set(names.values())) == 1
    label = {p.point.id: short_name(p, names[p.point], alone=alone) for p in shown}
    wholes = {p.point.id: time for p in shown if (time := stated_whole(p, kind)) is not None}
    tops = [*(time.value for time in wholes.values()), *(sum(_parts(p).values()) for p in shown)]
    factor, unit = time_unit(tops)
    bars = [bar for p in shown for bar in _bars(p, label[p.point.id], factor)]
    marks: list[Spec] = [
        {"point": label[p.point.id], "end": wholes[p.point.id].value * factor, "text": "measured"}
        for p in shown
        if p.point.id in wholes
    ]
    title = "Computing and communication, as stated"
    what = TIME_OF[kind]
    how = "A bar beyond its mark states more than there was time for."
    if len(found) > len(shown):
        how += f" The first {len(shown)} of {len(found)} settings; the table has all."
    spec = _spec(bars, marks, list(label.values()), f"time of one {what} ({unit})")
    caption = f"Time of one {what} ({unit}), from the table's own columns"
    caption += "; upright mark: measured." if marks else "."
    name = "stated" if only is None else "stated-verdict"
    return Figure(name, title, caption, whole(spec, description=title), how=how if marks else "")


def stated_bandwidth_figure(analysis: Analysis) -> Figure | None:
    """The table's own column of bandwidth against workers."""
    seen = [p for p in analysis.points if p.stated_bytes_per_s is not None]
    caption = "Bandwidth (bytes per second) against workers, from the table's own column."
    return against_workers(
        "stated-bandwidth",
        "Bandwidth, as stated",
        caption,
        seen,
        lambda p: p.stated_bytes_per_s,
        "bandwidth",
        rate_text,
    )


def _parts(profile: Profile) -> dict[str, float]:
    stated = {_COMPUTE: profile.stated_compute_s, _EXCHANGE: profile.stated_exchange_s}
    return {name: part.value for name, part in stated.items() if part is not None}


def _bars(profile: Profile, name: str, factor: float) -> list[Spec]:
    rows: list[Spec] = []
    at = 0.0
    for part, value in _parts(profile).items():
        rows.append(
            {
                "point": name,
                "part": part,
                "start": at * factor,
                "end": (at + value) * factor,
                "text": duration_text(value),
            }
        )
        at += value
    return rows


def _spec(bars: list[Spec], marks: list[Spec], names: list[str], axis: str) -> Spec:
    x: Spec = {"field": "start", "type": "quantitative", "title": axis, "axis": {"tickCount": 6}}
    shade: Spec = {
        "field": "part",
        "type": "nominal",
        "scale": {"domain": [_COMPUTE, _EXCHANGE], "range": [BLUE, PURPLE]},
        "legend": {"title": None, "symbolType": "square"},
    }
    tooltip: list[Spec] = [
        {"field": "point", "type": "nominal"},
        {"field": "part", "type": "nominal"},
        {"field": "text", "type": "nominal", "title": "time"},
    ]
    layers: list[Spec] = [
        {
            "data": {"values": bars},
            "mark": {"type": "bar", "height": 18, "stroke": "white", "strokeWidth": 0.5},
            "encoding": {"x": x, "x2": {"field": "end"}, "color": shade, "tooltip": tooltip},
        }
    ]
    if marks:
        layers.append(
            {
                "data": {"values": marks},
                "mark": {"type": "tick", "color": INK, "height": 26, "thickness": 2.5, "opacity": 1},
                "encoding": {"x": {"field": "end", "type": "quantitative"}},
            }
        )
    y: Spec = {
        "field": "point",
        "type": "nominal",
        "sort": list(dict.fromkeys(names)),
        "title": None,
        "axis": {"labelColor": INK, "ticks": False, "domain": False, "labelLimit": 260},
    }
    return {"width": _WIDTH, "height": {"step": 34}, "encoding": {"y": y}, "layer": layers}
