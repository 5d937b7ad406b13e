"""Who is late, and what workers used, as Vega-Lite specifications: own time by worker, utilisation against workers and
against time."""

from __future__ import annotations

from paceline.core.units import duration_text, percent_text
from paceline.records import Analysis, series_names
from paceline.report.charts.dots import Dot, dots_chart, first_lines, says_nothing
from paceline.report.charts.steps import time_unit
from paceline.report.charts.theme import BLUE, BYTES_LABEL, INK, colour, toggled, whole, worker_axis
from paceline.report.document import Figure, Spec

__all__ = ["course_figures", "straggler_figure", "utilisation_figure"]

_WIDTH, _HEIGHT, _LOW = 430, 240, 180
_MOST_WORKERS = 256
_SHARES = {
    "cpu_ratio": "cores",
    "gpu_ratio": "GPU",
    "gpu_clock_ratio": "GPU clock",
    "throttled_ratio": "throttled",
}


def straggler_figure(analysis: Analysis) -> Figure | None:
    """Each worker's own time in a step at the largest count: whoever stands to the right is waited for."""
    seen = [p for p in analysis.points if len(p.own_s_by_worker) > 1]
    if not seen:
        return None
    profile = max(seen, key=lambda p: p.point.workers)
    own = profile.own_s_by_worker
    factor, unit = time_unit(own)
    shown = own[:_MOST_WORKERS]
    latest = own.index(max(own))
    rows = [
        {
            "worker": i,
            "own": value * factor,
            "text": duration_text(value),
            "label": "slowest" if i == latest else "",
        }
        for i, value in enumerate(shown)
    ]
    title = f"Own time by worker, {profile.point.workers} workers"
    caption = f"Own time of each worker in a step ({unit}): workers with little of it wait for the slowest."
    how = "Waiting for others is excluded. Medians over runs."
    if len(own) > len(shown):
        how += f" The first {len(shown)} of {len(own)} workers."
    few = len(shown) <= 32
    y: Spec = {"field": "own", "type": "quantitative", "title": f"own time ({unit})", "scale": {"zero": True}}
    x: Spec = {
        "field": "worker",
        "type": "ordinal",
        "title": "worker",
        "axis": {"labelAngle": 0, "grid": False, "labelOverlap": True},
    }
    tooltip: list[Spec] = [
        {"field": "worker", "type": "ordinal"},
        {"field": "text", "type": "nominal", "title": "own time"},
    ]
    layers: list[Spec] = [
        {
            "mark": {
                "type": "bar",
                "color": BLUE,
                "opacity": 0.85,
                **({"width": {"band": 0.6}} if few else {}),
            },
            "encoding": {"tooltip": tooltip},
        },
        {
            "mark": {"type": "text", "dy": -8, "color": INK, "fontWeight": 600},
            "encoding": {"text": {"field": "label"}},
        },
    ]
    spec: Spec = {"width": _WIDTH, "height": _HEIGHT, "data": {"values": rows}, "encoding": {"x": x, "y": y}}
    return Figure("workers", title, caption, whole({**spec, "layer": layers}, description=title), how=how)


def utilisation_figure(analysis: Analysis) -> Figure | None:
    """What was used of cores and devices while steps were measured, against workers."""
    seen = [p for p in analysis.points if any(getattr(p, name) is not None for name in _SHARES)]
    if not seen:
        return None
    names = series_names([p.point for p in seen])
    alone = len(set(names.values())) == 1
    shares = _SHARES
    if not alone:  # several lines: what says most about each; the table has the rest
        best = next(n for n in ("gpu_ratio", *_SHARES) if any(getattr(p, n) is not None for p in seen))
        shares = {best: _SHARES[best]}
    dots = [
        Dot(words if alone else names[p.point], p.point.workers, value)
        for name, words in shares.items()
        for p in sorted(seen, key=lambda p: p.point.workers)
        if (value := getattr(p, name)) is not None
    ]
    if says_nothing(dots):
        return None
    dots, left = first_lines(dots)
    title = "Utilisation"
    y: Spec = {
        "field": "value",
        "type": "quantitative",
        "title": "share in use" if alone else f"{next(iter(shares.values()))}, share in use",
        "scale": {"domain": [0, 1.1], "nice": False},
        "axis": {"tickCount": 5, "format": ".0%"},
    }
    encoding: Spec = {"x": worker_axis([dot.workers for dot in dots]), "y": y}
    layers = [dots_chart(dots, label=percent_text, text=percent_text, dy=-11)]
    spec: Spec = {"width": _WIDTH, "height": _HEIGHT, "encoding": encoding, "layer": layers}
    how = (
        "Sampled outside the workers. Cores: of the busiest node. GPU: time with a kernel under way; waiting in NCCL "
        "counts as such. Circles: measured, with 90% intervals over runs."
    )
    caption = "Share in use while steps were measured (percent) against workers."
    return Figure("utilisation", title, caption, whole(spec, description=title), how=how + left)


def course_figures(analysis: Analysis) -> tuple[Figure, ...]:
    """Cores and memory of every worker over one launch, against time; of GPUs too where they were sampled."""
    wanted = (
        ("cores", "Cores in use", "cores", {"tickCount": 5}),
        ("memory_bytes", "Memory", "resident memory", {"tickCount": 5, "labelExpr": BYTES_LABEL}),
        ("gpu_ratio", "GPU in use", "share of time", {"tickCount": 5, "format": ".0%"}),
        ("gpu_memory_bytes", "GPU memory", "in use", {"tickCount": 5, "labelExpr": BYTES_LABEL}),
    )
    figures = (_course(analysis, *one) for one in wanted)
    return tuple(figure for figure in figures if figure is not None)


def _course(analysis: Analysis, quantity: str, title: str, axis: str, ticks: Spec) -> Figure | None:
    rows = [
        {"line": f"worker {course.worker}", "t": t_s, "value": value}
        for course in analysis.courses
        for t_s, value in zip(course.t_s, getattr(course, quantity), strict=False)
        if value is not None
    ]
    if not rows:
        return None
    names = list(dict.fromkeys(str(row["line"]) for row in rows))
    parameter, opacity = toggled("line")
    x: Spec = {"field": "t", "type": "quantitative", "title": "time (s)", "axis": {"grid": False}}
    y: Spec = {
        "field": "value",
        "type": "quantitative",
        "title": axis,
        "scale": {"zero": True},
        "axis": ticks,
    }
    layer: Spec = {
        "data": {"values": rows},
        "params": [parameter],
        "mark": {"type": "line", "strokeWidth": 1.6, "interpolate": "step-before"},
        "encoding": {"color": colour(names), "opacity": opacity},
    }
    spec: Spec = {"width": _WIDTH, "height": _LOW, "encoding": {"x": x, "y": y}, "layer": [layer]}
    caption = (
        f"{title} ({axis}) of each worker in run {analysis.courses[0].trial}, start-up and warm-up included."
    )
    named = f"{title} against time"
    return Figure(f"course-{quantity}", named, caption, whole(spec, description=named))
