"""Our fit and the simpler curves on a chart of speed-up or efficiency: ours is shown, the legend shows the others."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.records import Analysis, FittedLine, Profile
from paceline.report.charts.theme import MUTED
from paceline.report.document import Spec

__all__ = ["fit_layers"]

_OURS = "paceline"
_NAMES = {
    _OURS: "our fit",
    "last": "same efficiency",
    "amdahl": "Amdahl",
    "gustafson": "Gustafson",
    "usl": "USL",
}
_NAMES |= {"pollux": "Pollux", "log-log": "log-log"}
_DASHES = ([1, 0], [2, 2], [6, 2], [8, 3, 2, 3], [4, 4], [10, 4], [1, 3])


def fit_layers(analysis: Analysis, own: Sequence[Sequence[Profile]], quantity: str) -> list[Spec]:
    """A layer with every method fitted to one line of points: that of the Baseline, or else the first that has any."""
    lines = _of_one_line(analysis, own)
    if not lines:
        return []
    rows = [
        {"workers": n, "value": value, "method": _NAMES.get(line.method, line.method)}
        for line in lines
        for n, value in zip(line.workers, _values(line, quantity), strict=True)
        if value > 0
    ]
    if not rows:
        return []
    names = list(dict.fromkeys(str(row["method"]) for row in rows))
    parameter: Spec = {
        "name": "fitted",
        "select": {"type": "point", "fields": ["method"], "toggle": "true"},
        "bind": "legend",
        "value": [{"method": names[0]}],
    }
    dash: Spec = {
        "field": "method",
        "type": "nominal",
        "scale": {"domain": names, "range": [_DASHES[i % len(_DASHES)] for i in range(len(names))]},
        "legend": {
            "title": "fitted curves",
            "titleFontWeight": "normal",
            "titleColor": MUTED,
            "orient": "bottom",
            "symbolType": "stroke",
            "symbolStrokeColor": MUTED,
            "columns": 4,
        },
    }
    layer: Spec = {
        "data": {"values": rows},
        "params": [parameter],
        "mark": {"type": "line", "color": MUTED, "strokeWidth": 1.5, "clip": True},
        "encoding": {
            "strokeDash": dash,
            "opacity": {"condition": {"param": "fitted", "value": 0.9}, "value": 0},
        },
    }
    return [layer]


def _of_one_line(analysis: Analysis, own: Sequence[Sequence[Profile]]) -> list[FittedLine]:
    if analysis.fit is None:
        return []
    here = {profile.point.id for profiles in own for profile in profiles}
    known = list(dict.fromkeys(line.baseline for line in analysis.fit.lines if line.baseline in here))
    if not known:
        return []
    chosen = analysis.baseline if analysis.baseline in known else known[0]
    found = [line for line in analysis.fit.lines if line.baseline == chosen]
    return sorted(found, key=lambda line: line.method != _OURS)


def _values(line: FittedLine, quantity: str) -> tuple[float, ...]:
    return line.speedup if quantity == "speedup" else line.efficiency_ratio
