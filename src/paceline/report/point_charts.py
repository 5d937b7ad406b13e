"""One quantity against workers (bus bandwidth, peak memory, accuracy), and grids of batch × workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from paceline.records import Analysis, Estimate, Profile
from paceline.report.document import Figure, Spec
from paceline.report.dots import Dot, dots_chart, first_lines
from paceline.report.series import series_names
from paceline.report.step_charts import time_unit
from paceline.report.theme import SKY, VERMILLION, whole, worker_axis
from paceline.units import bytes_text, duration_text, percent_text, rate_text

__all__ = ["accuracy_figure", "bus_figure", "grid_figures", "memory_figure"]

_WIDTH, _HEIGHT = 430, 240
_MOST_CELLS = 400
_PALE, _FAILED = "#e8f1f8", "#f5d5c0"  # both light enough for dark text, on a dark page too


def bus_figure(analysis: Analysis) -> Figure | None:
    """Bus bandwidth against workers."""
    seen = [p for p in analysis.points if p.bus_bytes_per_s is not None]
    caption = (
        "Bus bandwidth (bytes per second: 2(n−1)/n of the exchanged bytes over the time that collectives were under "
        "way) against workers (count, doubling scale). Circles: measured, with 90% intervals over launches."
    )
    return _against_workers(
        "bus", "Bus bandwidth", caption, seen, lambda p: p.bus_bytes_per_s, "bus bandwidth", rate_text
    )


def memory_figure(analysis: Analysis) -> Figure | None:
    """Peak memory of the fullest worker against workers; counts that ran out of memory are marked."""
    seen = [p for p in analysis.points if p.peak_memory_bytes is not None]
    full = [p for p in analysis.points if p.state == "oom"]
    caption = (
        "Peak memory of the fullest worker (bytes) against workers (count, doubling scale). Circles: measured, with "
        "90% intervals over launches."
    )
    if full:
        caption += " Crosses: ran out of memory, so the need is unknown and higher than the device has."
    return _against_workers(
        "memory", "Peak memory", caption, seen, lambda p: p.peak_memory_bytes, "peak memory", bytes_text, full
    )


def accuracy_figure(analysis: Analysis) -> Figure | None:
    """Final accuracy against workers, where the measurements have it."""
    seen = [p for p in analysis.points if p.accuracy is not None]
    caption = "Accuracy (percent) against workers (count, doubling scale). Circles: measured."
    return _against_workers(
        "accuracy", "Accuracy", caption, seen, lambda p: p.accuracy, "accuracy", percent_text
    )


def grid_figures(analysis: Analysis) -> tuple[Figure, ...]:
    """Step time and peak memory over batch × workers, where at least two of each were asked for."""
    points = [
        p for p in analysis.points if p.point.scaling == "weak" and p.point.per_worker_batch is not None
    ]
    names = set(series_names([p.point for p in points]).values())
    batches = {p.point.per_worker_batch for p in points}
    if len(batches) < 2 or len({p.point.workers for p in points}) < 2 or len(names) != len(batches):
        return ()
    if len(points) > _MOST_CELLS:  # nobody reads so many; the table has them
        return ()
    factor, unit = time_unit([p.step_s.value for p in points if p.step_s])
    step = _grid(
        "grid-step", "Step time", f"step time ({unit})", points, lambda p: p.step_s, factor, duration_text
    )
    memory = _grid(
        "grid-memory",
        "Peak memory",
        "peak memory (GB)",
        points,
        lambda p: p.peak_memory_bytes,
        1e-9,
        bytes_text,
    )
    return tuple(figure for figure in (step, memory) if figure is not None)


def _against_workers(
    name: str,
    title: str,
    caption: str,
    seen: Sequence[Profile],
    quantity: Callable[[Profile], Estimate | None],
    axis: str,
    label: Callable[[float], str],
    failed: Sequence[Profile] = (),
) -> Figure | None:
    names = series_names([p.point for p in seen])
    dots = [
        Dot(names[p.point], p.point.workers, value)
        for p in sorted(seen, key=lambda p: p.point.workers)
        if (value := quantity(p)) is not None
    ]
    if not dots:
        return None
    dots, left = first_lines(dots)
    top = max(max(dot.value.value, dot.value.high or 0.0) for dot in dots)
    top = min(top, 2 * max(dot.value.value for dot in dots)) * 1.15
    percent = label is percent_text
    text = percent_text if percent else (lambda value: f"{label(value.value)} ({value.n} launches)")
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
        "axis": {"tickCount": 5, **({"format": ".0%"} if percent else {"labelExpr": _BYTES})},
    }
    if axis == "bus bandwidth":
        y = {**y, "axis": {"tickCount": 5, "labelExpr": _BYTES + " + '/s'"}}
    encoding: Spec = {"x": worker_axis(counts), "y": y}
    spec: Spec = {"width": _WIDTH, "height": _HEIGHT, "encoding": encoding, "layer": layers}
    return Figure(name, title, caption + left, whole(spec, description=title))


def _grid(
    name: str,
    title: str,
    axis: str,
    points: Sequence[Profile],
    quantity: Callable[[Profile], Estimate | None],
    factor: float,
    text: Callable[[float], str],
) -> Figure | None:
    rows: list[dict[str, object]] = []
    for profile in points:
        value = quantity(profile)
        rows.append(
            {
                "workers": profile.point.workers,
                "batch": profile.point.per_worker_batch,
                "value": None if value is None else value.value * factor,
                "text": profile.state if value is None else text(value.value),
            }
        )
    if all(row["value"] is None for row in rows):
        return None
    shade: Spec = {
        "field": "value",
        "type": "quantitative",
        "scale": {"range": [_PALE, SKY]},
        "legend": None,
    }
    encoding: Spec = {
        "x": {"field": "workers", "type": "ordinal", "title": "workers", "axis": {"labelAngle": 0}},
        "y": {"field": "batch", "type": "ordinal", "title": "per-worker batch", "sort": "descending"},
    }
    layers: list[Spec] = [
        {"mark": {"type": "rect"}, "encoding": {"color": shade}},
        {
            "data": {"values": [row for row in rows if row["value"] is None]},
            "mark": {"type": "rect", "color": _FAILED},
        },
        {"mark": {"type": "text", "color": "#101418"}, "encoding": {"text": {"field": "text"}}},
    ]
    spec: Spec = {"width": {"step": 84}, "height": {"step": 40}, "data": {"values": rows}}
    spec |= {"encoding": encoding, "layer": layers}
    caption = (
        f"{axis.capitalize()} for each per-worker batch (samples, vertical) and worker count (horizontal). A cell "
        "without a measurement says how its trials ended."
    )
    return Figure(name, f"{title} by batch and workers", caption, whole(spec, description=title))


_BYTES = "datum.value === 0 ? '0' : replace(replace(format(datum.value, '.3~s'), 'k', ' k'), /([MGT])$/, ' $1') + 'B'"
