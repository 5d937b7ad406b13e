"""Time against cost, as a Vega-Lite specification: what may be chosen, what is worth choosing, and the limits.

measured    filled circles        projected   hollow diamonds        with bars for 90% intervals both ways
Pareto      a solid line through those than which none is both faster and cheaper
limits      dashed lines at the deadline and the budget
"""

from __future__ import annotations

from collections.abc import Sequence

from paceline.core.units import estimate_text
from paceline.records import Analysis, Decision, Option
from paceline.report.charts.theme import BLUE, INK, MUTED, VERMILLION, whole
from paceline.report.document import Figure, Spec

__all__ = ["decision_figure"]

_WIDTH, _HEIGHT = 430, 300
_HOUR_S = 3600.0


def decision_figure(analysis: Analysis) -> Figure | None:
    """Every Option of the Decision; None where there is nothing to choose from."""
    decision = analysis.decision
    if decision is None or len(decision.options) < 2:
        return None
    factor, unit = _time_unit(decision)
    scale, cost_unit = _cost_unit(decision)
    rows = [_row(option, factor, scale, decision) for option in decision.options]
    title = "Time against cost"
    caption = f"Cost ({cost_unit}) against time ({unit}) of {decision.work}, by workers."
    how = (
        "Filled circles: measured. Hollow diamonds: predicted. Bars: 90% intervals. Line: the efficient choices; no "
        f"other is both faster and cheaper.{_limits_text(decision)}{_price_text(decision)}"
    )
    spec: Spec = {
        "width": _WIDTH,
        "height": _HEIGHT,
        "encoding": {
            "x": _axis(f"time ({unit})", "time"),
            "y": _axis(f"cost ({cost_unit})", "cost"),
        },
        "layer": [*_limits(decision, factor), *_choices(rows)],
    }
    return Figure("decision", title, caption, whole(spec, description=title), how=how)


def _choices(rows: Sequence[dict[str, object]]) -> list[Spec]:
    tooltip: list[Spec] = [
        {"field": "workers", "type": "quantitative"},
        {"field": "time_text", "type": "nominal", "title": "time"},
        {"field": "cost_text", "type": "nominal", "title": "cost"},
        {"field": "basis", "type": "nominal", "title": "basis"},
    ]
    line = [row for row in rows if row["pareto"]]
    layers: list[Spec] = [
        {
            "data": {"values": line},
            "mark": {"type": "line", "color": BLUE, "strokeWidth": 2},
            "encoding": {"order": {"field": "workers", "type": "quantitative"}},
        },
        {
            "data": {"values": list(rows)},
            "mark": {"type": "rule", "color": BLUE, "strokeWidth": 1.5},
            "encoding": {"y": {"field": "cost_low"}, "y2": {"field": "cost_high"}},
        },
        {
            "data": {"values": list(rows)},
            "mark": {"type": "rule", "color": BLUE, "strokeWidth": 1.5},
            "encoding": {"x": {"field": "time_low"}, "x2": {"field": "time_high"}},
        },
    ]
    for measured, shape in ((True, "circle"), (False, "diamond")):
        shown = [row for row in rows if row["measured"] is measured]
        if shown:
            mark: Spec = {"type": "point", "shape": shape, "filled": measured, "size": 85, "color": BLUE}
            layers.append(
                {
                    "data": {"values": shown},
                    "mark": {**mark, "strokeWidth": 2, "opacity": 1},
                    "encoding": {"tooltip": tooltip},
                }
            )
    layers.append(
        {
            "data": {"values": list(rows)},
            "mark": {"type": "text", "align": "left", "dx": 9, "dy": -9, "color": INK, "fontWeight": 600},
            "encoding": {"text": {"field": "workers", "type": "quantitative", "format": "d"}},
        }
    )
    chosen = [row for row in rows if row["chosen"]]
    if chosen:  # a layer without data makes Vega warn of an endless axis
        layers.append(
            {
                "data": {"values": chosen},
                "mark": {"type": "text", "align": "left", "dx": 9, "dy": -23, "fontStyle": "italic"},
                "encoding": {"text": {"value": "recommended"}},
            }
        )
    return layers


def _limits(decision: Decision, factor: float) -> list[Spec]:
    """The deadline stands upright, the budget lies."""
    found: list[Spec] = []
    limits = (
        ("x", "time", None if decision.deadline_s is None else decision.deadline_s * factor, "deadline"),
        ("y", "cost", decision.budget, "budget"),
    )
    for channel, field, value, name in limits:
        if value is None:
            continue
        data: Spec = {"values": [{field: value}]}
        other = "y" if channel == "x" else "x"
        place: Spec = {
            channel: {"field": field, "type": "quantitative"},
            other: {"value": 8 if channel == "x" else _WIDTH - 4},
        }
        rule: Spec = {channel: {"field": field, "type": "quantitative"}, other: None}
        align = {"align": "left", "dx": 5} if channel == "x" else {"align": "right", "dy": -7}
        found += [
            {
                "data": data,
                "mark": {"type": "rule", "strokeDash": [6, 4], "color": VERMILLION, "strokeWidth": 1.5},
                "encoding": rule,
            },
            {
                "data": data,
                "mark": {"type": "text", "fontStyle": "italic", "color": MUTED, **align},
                "encoding": {**place, "text": {"value": name}},
            },
        ]
    return found


def _row(option: Option, factor: float, scale: float, decision: Decision) -> dict[str, object]:
    time, cost = option.time_s, option.cost
    return {
        "workers": option.workers,
        "chosen": option.workers == decision.chosen,
        "time": time.value * factor,
        "time_low": (time.value if time.low is None else time.low) * factor,
        "time_high": (time.value if time.high is None else time.high) * factor,
        "cost": cost.value * scale,
        "cost_low": (cost.value if cost.low is None else cost.low) * scale,
        "cost_high": (cost.value if cost.high is None else cost.high) * scale,
        "time_text": estimate_text(time, factor=factor),
        "cost_text": estimate_text(cost, factor=scale),
        "basis": "measured" if option.measured else "predicted",
        "measured": option.measured,
        "pareto": option.pareto,
    }


def _axis(title: str, field: str) -> Spec:
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": {"type": "log", "base": 2, "nice": False, "padding": 26},
        "axis": {"format": ".3~g", "tickCount": 5},
    }


def _time_unit(decision: Decision) -> tuple[float, str]:
    longest = max(option.time_s.value for option in decision.options)
    if longest >= 2 * _HOUR_S:
        return 1 / _HOUR_S, "h"
    return (1 / 60, "min") if longest >= 300.0 else (1.0, "s")


def _cost_unit(decision: Decision) -> tuple[float, str]:
    """Hours of workers as seconds where they are few; money stays what it is."""
    short = max(option.cost.value for option in decision.options) < 0.1
    return (
        (_HOUR_S, "worker-seconds")
        if short and decision.cost_unit == "worker-hours"
        else (1.0, decision.cost_unit)
    )


def _limits_text(decision: Decision) -> str:
    return " Dashed: deadline and budget." if (decision.deadline_s or decision.budget) else ""


def _price_text(decision: Decision) -> str:
    chosen = next((o for o in decision.options if o.workers == decision.chosen), None)
    if chosen is None or chosen.marginal_cost is None:
        return ""
    price = f"{chosen.marginal_cost:.2g} {decision.cost_unit}"
    return f" At {chosen.workers} workers the last hour saved costs {price} more."
