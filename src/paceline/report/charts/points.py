"""One quantity against workers (bus bandwidth, peak memory, accuracy)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from paceline.core.units import bytes_text, percent_text, rate_text
from paceline.records import Analysis, Estimate, Profile, series_names
from paceline.report.charts.dots import Dot, cut_off, dots_chart, first_lines, says_nothing
from paceline.report.charts.theme import BYTES_LABEL, VERMILLION, whole, worker_axis
from paceline.report.document import Figure, Spec

__all__ = ["accuracy_figure", "against_workers", "bus_figure", "memory_figure"]

_WIDTH, _HEIGHT = 430, 240


def bus_figure(analysis: Analysis) -> Figure | None:
    """Bus bandwidth against workers."""
    seen = [p for p in analysis.points if p.bus_bytes_per_s is not None]
    caption = "Bus bandwidth (bytes per second) of all-reduce against workers, with 90% intervals over runs."
    return against_workers(
        "bus", "Bus bandwidth", caption, seen, lambda p: p.bus_bytes_per_s, "bus bandwidth", rate_text
    )


def memory_figure(analysis: Analysis) -> Figure | None:
    """Peak memory of the fullest worker against workers; counts that ran out of memory are marked."""
    seen = [p for p in analysis.points if p.peak_memory_bytes is not None]
    full = [p for p in analysis.points if p.state == "oom"]
    caption = "Peak memory of the fullest worker, with 90% intervals over runs."
    if full:
        caption += " Crosses: ran out of memory."
    return against_workers(
        "memory", "Peak memory", caption, seen, lambda p: p.peak_memory_bytes, "peak memory", bytes_text, full
    )


def accuracy_figure(analysis: Analysis) -> Figure | None:
    """Final accuracy against workers, where the measurements have it."""
    seen = [p for p in analysis.points if p.accuracy is not None]
    caption = "Accuracy (percent) against workers (count, doubling scale). Circles: measured."
    return against_workers(
        "accuracy", "Accuracy", caption, seen, lambda p: p.accuracy, "accuracy", percent_text
    )


def against_workers(
    name: str,
    title: str,
    caption: str,
    seen: Sequence[Profile],
    quantity: Callable[[Profile], Estimate | None],
    axis: str,
    label: Callable[[float], str],
    failed: Sequence[Profile] = (),
) -> Figure | None:
    """One quantity of these settings, line by line; None where it would say nothing."""
    names = series_names([p.point for p in seen])
    dots = [
        Dot(names[p.point], p.point.workers, value)
        for p in sorted(seen, key=lambda p: p.point.workers)
        if (value := quantity(p)) is not None
    ]
    if not dots or (says_nothing(dots) and not failed):
        return None
    dots, left = first_lines(dots)
    top = max(max(dot.value.value, dot.value.high or 0.0) for dot in dots)
    top = min(top, 2 * max(dot.value.value for dot in dots)) * 1.15
    percent = label is percent_text
    text = percent_text if percent else (lambda value: f"{label(value.value)} ({value.n} runs)")
    layers = [dots_chart(dots, label=label, text=text, dy=-11)]
    if failed:
        rows = [{"workers": p.point.workers, "value": top * 0.96, "text": p.point.id} for p in failed]
        layers.append(
            {
                "data": {"values": rows},
                "mark": {
                    "type": "point",
                    "shape": "M-1,-1L1,1M1,-1L-1,1",
                    "size": 60,
                    "opacity": 1,
                    "color": VERMILLION,
                    "strokeWidth": 2.5,
                },
                "encoding": {"tooltip": [{"field": "text", "type": "nominal", "title": "out of memory"}]},
            }
        )
    counts = [dot.workers for dot in dots] + [p.point.workers for p in failed]
    y: Spec = {
        "field": "value",
        "type": "quantitative",
        "title": axis,
        "scale": {"domain": [0, top], "nice": False},
        "axis": {"tickCount": 5, **({"format": ".0%"} if percent else {"labelExpr": BYTES_LABEL})},
    }
    if label is rate_text:
        y = {**y, "axis": {"tickCount": 5, "labelExpr": BYTES_LABEL + " + '/s'"}}
    encoding: Spec = {"x": worker_axis(counts), "y": y}
    spec: Spec = {"width": _WIDTH, "height": _HEIGHT, "encoding": encoding, "layer": layers}
    how = (cut_off(dots, 0.0, top) + left).strip()
    return Figure(name, title, caption, whole(spec, description=title), how=how)
