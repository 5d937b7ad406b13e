"""Does accuracy survive? Curves by configuration, time to the target, epochs against workers: Vega-Lite specifications.

curves      one thin line per seed, a band from the lowest to the highest seed where there are several
plateau     an upright tick at the epoch from which a configuration is stable, with its interval
target      a dotted level line
censored    an arrow: some seed never reached the target, so the interval has no upper end
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite

from paceline.core.units import duration_range_text, estimate_text
from paceline.records import AccuracyCurve, Analysis, Comparison, Convergence, Estimate
from paceline.report.charts.dots import Dot, dots_chart, first_lines
from paceline.report.charts.theme import BLUE, COLOURS, MUTED, colour, toggled, whole, worker_axis
from paceline.report.document import Column, Figure, Spec, Table
from paceline.report.tables.cells import UNKNOWN, count_text

__all__ = ["accuracy_figures", "comparison_table"]

_WIDTH, _HEIGHT = 640, 300
_SMALL, _LOW = 430, 240
_MOST_TICKS = 16
_WORDS = ("configuration", "learning-rate rule", "seeds", "seeds that reached it", "accuracy")


def accuracy_figures(analysis: Analysis) -> tuple[Figure, ...]:
    """Every chart that the accuracy curves of a study support."""
    found = analysis.convergence
    if found is None or not found.curves:
        return ()
    figures = (_curves(found), _time_to_target(found), _epochs(found))
    return tuple(figure for figure in figures if figure is not None)


def comparison_table(analysis: Analysis) -> Table | None:
    """Every configuration over its seeds: whether and when it reached the target, and whether accuracy survives."""
    found = analysis.convergence
    if found is None or not found.comparisons:
        return None
    rows = tuple(
        (
            one.label,
            str(one.workers),
            count_text(one.global_batch),
            one.lr_rule or UNKNOWN,
            f"{_seeds(one, found)}{f', {one.diverged} diverged' if one.diverged else ''}",
            _censored(one.time_to_target_s, duration_range_text),
            _censored(one.epochs_to_target, estimate_text),
            estimate_text(one.plateau_epoch) + (" (still rising)" if one.plateau_censored else ""),
            estimate_text(one.metric),
            estimate_text(one.difference),
            _outcome(one),
            estimate_text(one.noise_scale),
        )
        for one in found.comparisons
    )
    names = (
        "configuration", "workers", "global batch", "learning-rate rule",
        "seeds" if found.target is None else "seeds that reached it", "time to target",
        "epochs to target", "plateau epoch", f"best {_metric(found)}", "difference", "accuracy", "noise scale",
    )  # fmt: skip
    target = "" if found.target is None else f" Target: {_metric(found)} {found.target:g}."
    caption = (
        f"Every configuration over its seeds, with 90% intervals.{target} Difference: to the first configuration; "
        "better is positive."
    )
    if found.target is not None:
        caption += " Not every seed: the median, where some never came so far."
    columns = tuple(Column(name, number=name not in _WORDS) for name in names)
    kept = [i for i in range(len(names)) if i < 2 or any(row[i] != UNKNOWN for row in rows)]
    return Table(
        "comparisons",
        caption,
        tuple(columns[i] for i in kept),
        tuple(tuple(row[i] for i in kept) for row in rows),
    )


def _outcome(one: Comparison) -> str:
    surely = one.difference is not None and one.difference.low is not None and one.difference.low > 0
    return "better" if surely and one.survives == "survives" else one.survives or UNKNOWN


def _seeds(one: Comparison, found: Convergence) -> str:
    return str(one.seeds) if found.target is None else f"{one.reached} of {one.seeds}"


def _curves(found: Convergence) -> Figure | None:
    labels = _labels(found)
    points = list(dict.fromkeys(curve.point for curve in found.curves if curve.epochs))
    names = [labels.get(point, point) for point in points][: len(COLOURS)]
    shown = [
        curve for curve in found.curves if labels.get(curve.point, curve.point) in names and curve.epochs
    ]
    if not shown:
        return None
    rows = [
        {
            "line": labels.get(c.point, c.point),
            "trial": c.trial,
            "epoch": epoch,
            "value": value,
            "seed": c.seed,
        }
        for c in shown
        for epoch, value in zip(c.epochs, c.metric, strict=False)
        if isfinite(value)
    ]
    if not rows:
        return None
    parameter, opacity = toggled("line")
    shade = colour(names, width=_WIDTH)
    if isinstance(shade["legend"], dict):
        shade["legend"] = {**shade["legend"], "symbolOpacity": 1}
    metric = _metric(found)
    tooltip: list[Spec] = [
        {"field": "line", "type": "nominal", "title": "configuration"},
        {"field": "seed", "type": "quantitative"},
        {"field": "epoch", "type": "quantitative"},
        {"field": "value", "type": "quantitative", "title": metric, "format": ".4~g"},
    ]
    spread = [row for name in names for row in _band(shown, labels, name)]
    band: Spec = {
        "data": {"values": spread},
        "mark": {"type": "area", "opacity": 0.16},
        "encoding": {"y": {"field": "low"}, "y2": {"field": "high"}, "color": shade},
    }
    seeds: Spec = {
        "data": {"values": rows},
        "params": [parameter],
        "mark": {"type": "line", "strokeWidth": 1.4, "point": {"size": 18}},
        "encoding": {
            "color": shade,
            "opacity": opacity,
            "detail": {"field": "trial", "type": "nominal"},
            "tooltip": tooltip,
        },
    }
    title = f"{metric.capitalize()} by configuration"
    low, high = min(float(str(r["value"])) for r in rows), max(float(str(r["value"])) for r in rows)
    plateaus = _plateaus(found, names, labels, (low, high) if found.rises else (high, low))
    spec: Spec = {
        "width": _WIDTH,
        "height": _HEIGHT,
        "encoding": {
            "x": {
                "field": "epoch",
                "type": "quantitative",
                "title": "epoch",
                "axis": {"grid": False, **_whole_epochs(shown)},
            },
            "y": {"field": "value", "type": "quantitative", "title": metric, "scale": {"zero": False}},
        },
        "layer": [
            *([band] if spread else []),
            *_target(found),
            seeds,
            *plateaus,
        ],
    }
    caption = f"{title}: {metric} against epochs."
    how = "Thin lines: seeds"
    how += "; band: from the lowest to the highest seed." if spread else ", one of each."
    if plateaus:
        how += " Upright ticks below: the epoch from which a configuration is stable, with its 90% interval."
    how += " Dotted: the target." if found.target is not None else ""
    if len(points) > len(names):
        how += f" The first {len(names)} of {len(points)} configurations; the table has all."
    return Figure("curves", title, caption, whole(spec, description=title), wide=True, how=how)


def _whole_epochs(curves: Sequence[AccuracyCurve]) -> Spec:
    """A tick at every epoch where they are few and whole."""
    seen = sorted({epoch for curve in curves for epoch in curve.epochs})
    if len(seen) > _MOST_TICKS or any(epoch != int(epoch) for epoch in seen):
        return {}
    return {"values": [int(epoch) for epoch in seen], "format": "d"}


def _band(curves: Sequence[AccuracyCurve], labels: dict[str, str], name: str) -> list[dict[str, object]]:
    """The lowest and highest seed at every epoch that all seeds of one configuration have."""
    own = [
        {epoch: value for epoch, value in zip(c.epochs, c.metric, strict=False) if isfinite(value)}
        for c in curves
        if labels.get(c.point, c.point) == name
    ]
    if len(own) < 2:
        return []
    common = sorted(set.intersection(*(set(values) for values in own)))
    return [
        {
            "line": name,
            "epoch": epoch,
            "low": min(values[epoch] for values in own),
            "high": max(values[epoch] for values in own),
        }
        for epoch in common
    ]


def _target(found: Convergence) -> list[Spec]:
    if found.target is None:
        return []
    data: Spec = {"values": [{"value": found.target}]}
    return [
        {
            "data": data,
            "mark": {
                "type": "rule",
                "strokeDash": [1, 4],
                "strokeCap": "round",
                "strokeWidth": 2,
                "color": MUTED,
            },
            "encoding": {"x": None},
        },
        {
            "data": data,
            "mark": {"type": "text", "align": "left", "dx": 4, "dy": 10, "fontStyle": "italic"},
            "encoding": {"x": {"value": 0}, "text": {"value": "target"}},
        },
    ]


def _plateaus(
    found: Convergence, names: Sequence[str], labels: dict[str, str], ends: tuple[float, float]
) -> list[Spec]:
    """Ticks with intervals, one above the other at the end of the axis where curves begin."""
    rows = [
        {
            "line": labels[one.point],
            "epoch": one.plateau_epoch.value,
            "low": one.plateau_epoch.value if one.plateau_epoch.low is None else one.plateau_epoch.low,
            "high": one.plateau_epoch.value if one.plateau_epoch.high is None else one.plateau_epoch.high,
            "value": ends[0] + (ends[1] - ends[0]) * 0.045 * names.index(labels[one.point]),
        }
        for one in found.comparisons
        if one.plateau_epoch is not None and not one.plateau_censored and labels.get(one.point) in names
    ]
    if not rows:
        return []
    shade = colour(names)
    return [
        {
            "data": {"values": rows},
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": {"x": {"field": "low"}, "x2": {"field": "high"}, "color": shade},
        },
        {
            "data": {"values": rows},
            "mark": {"type": "tick", "orient": "vertical", "thickness": 3, "height": 16, "opacity": 1},
            "encoding": {"color": shade},
        },
    ]


def _time_to_target(found: Convergence) -> Figure | None:
    known = [one for one in found.comparisons if one.time_to_target_s is not None]
    if found.target is None or not known:
        return None
    rows = []
    for one in known:
        time = one.time_to_target_s
        if time is not None:
            rows.append(
                {
                    "configuration": one.label,
                    "time": time.value,
                    "low": time.value if time.low is None else time.low,
                    "high": time.value if time.high is None else time.high,
                    "text": _censored(time, duration_range_text),
                    "open": time.low is not None and time.high is None,
                    "seeds": f"{one.reached} of {one.seeds}",
                }
            )
    tooltip: list[Spec] = [
        {"field": "configuration", "type": "nominal"},
        {"field": "text", "type": "nominal", "title": "time to target"},
        {"field": "seeds", "type": "nominal", "title": "seeds that reached it"},
    ]
    x: Spec = {"field": "time", "type": "quantitative", "title": "seconds to target", "scale": {"zero": True}}
    y: Spec = {
        "field": "configuration",
        "type": "nominal",
        "sort": [row["configuration"] for row in rows],
        "title": None,
        "axis": {"labelLimit": 300, "ticks": False, "domain": False},
    }
    layers: list[Spec] = [
        {
            "mark": {"type": "rule", "strokeWidth": 2, "color": BLUE},
            "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}},
        },
        {
            "transform": [{"filter": "!datum.open"}],
            "mark": {
                "type": "point",
                "shape": "circle",
                "filled": True,
                "size": 80,
                "color": BLUE,
                "opacity": 1,
            },
            "encoding": {"x": x, "tooltip": tooltip},
        },
        {
            "transform": [{"filter": "datum.open"}],
            "mark": {
                "type": "point",
                "shape": "triangle-right",
                "filled": True,
                "size": 110,
                "color": BLUE,
                "opacity": 1,
            },
            "encoding": {"x": x, "tooltip": tooltip},
        },
        {
            "mark": {"type": "text", "align": "left", "dx": 11, "dy": -9},
            "encoding": {"x": x, "text": {"field": "text"}},
        },
    ]
    title = f"Time to {_metric(found)} {found.target:g}"
    spec: Spec = {"width": _WIDTH, "height": {"step": 42}, "data": {"values": rows}, "encoding": {"y": y}}
    caption = f"Time from the first step to {_metric(found)} {found.target:g} (seconds), the fastest first."
    how = "With 90% intervals over seeds. Arrows: the median, where some seed never reached the target."
    drawn = whole({**spec, "layer": layers}, description=title)
    return Figure("time-to-target", title, caption, drawn, wide=True, how=how)


def _epochs(found: Convergence) -> Figure | None:
    """Epochs to the target, or to a stable accuracy, against workers."""
    dots = []
    for one in sorted(found.comparisons, key=lambda one: one.workers):
        if one.epochs_to_target is not None and one.epochs_to_target.high is not None:
            dots.append(Dot(_apart(one, "to target"), one.workers, one.epochs_to_target))
        if one.plateau_epoch is not None and not one.plateau_censored:
            dots.append(Dot(_apart(one, "to plateau"), one.workers, one.plateau_epoch))
    if len({dot.workers for dot in dots}) < 2:
        return None
    dots, left = first_lines(dots)
    top = max(max(dot.value.value, dot.value.high or 0.0) for dot in dots) * 1.15
    y: Spec = {
        "field": "value",
        "type": "quantitative",
        "title": "epochs",
        "scale": {"domain": [0, top], "nice": False},
        "axis": {"tickCount": 5, "tickMinStep": 1},
    }
    encoding: Spec = {"x": worker_axis([dot.workers for dot in dots]), "y": y}
    layers = [dots_chart(dots, label=lambda value: f"{value:.3g}", text=estimate_text, dy=-11)]
    spec: Spec = {"width": _SMALL, "height": _LOW, "encoding": encoding, "layer": layers}
    caption = "Epochs to the target and to a stable accuracy against workers, with 90% intervals over seeds."
    title = "Epochs against workers"
    return Figure("epochs", title, caption, whole(spec, description=title), how=left.strip())


def _apart(one: Comparison, what: str) -> str:
    return f"{what}, {one.lr_rule}" if one.lr_rule else what


def _labels(found: Convergence) -> dict[str, str]:
    """Configurations in a legend: what all of them share is left out."""
    several = found.comparisons if len(found.comparisons) > 1 else ()
    shared = set[str]().union(*(one.traits for one in several)).intersection(*(one.traits for one in several))
    return {
        one.point: ", ".join(trait for trait in one.traits if trait not in shared) or one.label
        for one in found.comparisons
    }


def _metric(found: Convergence) -> str:
    return (found.metric or "accuracy").replace("_", " ")


def _censored(quantity: Estimate | None, text: Callable[[Estimate], str]) -> str:
    """`40 s, not every seed` where some seed never came so far: the median of all, without an upper end."""
    if quantity is None:
        return UNKNOWN
    if quantity.low is not None and quantity.high is None:
        return f"{text(Estimate(quantity.value))}, not every seed"
    return text(quantity)
