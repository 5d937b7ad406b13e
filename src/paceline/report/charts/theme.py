"""How every chart looks: Okabe-Ito colours, quiet axes, system fonts, and the scales that charts share.

Ink, muted and grid are written into the pictures as plain colours; the page's style sheet turns exactly these three
into its own light and dark ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from paceline.report.document import Spec
from paceline.report.escape import visible

__all__ = ["BLUE", "COLOURS", "GREEN", "GRID", "INK", "MUTED", "ORANGE", "PURPLE", "SKY", "VERMILLION"]
__all__ += ["BYTES_LABEL", "colour", "toggled", "whole", "worker_axis"]

INK = "#1f2328"
MUTED = "#59636e"
GRID = "#d8dee4"

# Okabe & Ito, "Color Universal Design" (2008); black is ours (INK), yellow is too pale for lines
BLUE = "#0072B2"
VERMILLION = "#D55E00"
GREEN = "#009E73"
PURPLE = "#CC79A7"
ORANGE = "#E69F00"
SKY = "#56B4E9"
COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)

_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_FONT = "system-ui, sans-serif"
_MOST_TICKS = 9
_SYMBOL_PX, _LETTER_PX, _MOST_LETTERS = 34, 7, 37  # of a legend's entry; longer labels are cut
_FARTHER = re.compile("[\U00010000-\U0010ffff]")


# a Vega expression: 1.5e9 as 1.5 GB
_SHORT = "replace(replace(format(datum.value, '.3~s'), 'k', ' k'), /([MGT])$/, ' $1')"
BYTES_LABEL = f"datum.value === 0 ? '0' : {_SHORT} + 'B'"


def whole(spec: Spec, *, description: str) -> Spec:
    """A complete specification: the chart with its description and our looks."""
    return {
        "$schema": _SCHEMA,
        "description": visible(description),
        "padding": _PADDING,
        **_visible(spec),
        "config": _CONFIG,
    }


def _visible(spec: Spec) -> Spec:
    """The same data, its texts without control characters, and without characters beyond the basic plane: when a
    label is too long, the renderer may cut such a one in half, and then it draws nothing at all."""

    def clean(data: object) -> object:
        if isinstance(data, dict):
            return {key: clean(value) for key, value in data.items()}
        if isinstance(data, list):
            return [clean(value) for value in data]
        return _FARTHER.sub("�", visible(data)) if isinstance(data, str) else data

    return {key: clean(value) for key, value in spec.items()}


def worker_axis(counts: Sequence[int], unit: str = "worker") -> Spec:
    """Workers on a doubling scale, with a tick at every count, or at powers of two where there are many."""
    low, high = min(counts), max(counts)
    ticks = sorted(set(counts))
    if len(ticks) > _MOST_TICKS:
        ticks = [2**k for k in range(21) if low <= 2**k <= high]
    return {
        "field": "workers",
        "type": "quantitative",
        "title": f"{unit}s",
        "scale": {"type": "log", "base": 2, "domain": [low / 1.12, high * 1.12], "nice": False},
        "axis": {"values": ticks, "format": "d", "grid": False},
    }


def colour(names: Sequence[str], *, width: int = 430) -> Spec:
    """Lines by colour, in the order given; a legend only where there is something to tell apart.

    The legend has as many columns as the width of the chart has room for: a wider one would shrink the chart.
    """
    shown = [name for name in names if name]
    each = _SYMBOL_PX + _LETTER_PX * max((min(len(name), _MOST_LETTERS) for name in shown), default=0)
    columns = max(1, min(len(shown), width // each))
    return {
        "field": "line",
        "type": "nominal",
        "scale": {
            "domain": [*shown, ""],
            "range": [*(COLOURS[i % len(COLOURS)] for i in range(len(shown))), MUTED],
        },
        "legend": {"values": shown, "title": None, "columns": columns} if len(shown) > 1 else None,
    }


def toggled(field: str) -> tuple[Spec, Spec]:
    """A click in the legend keeps what was clicked: the parameter for one layer, the opacity for each."""
    parameter: Spec = {"name": "shown", "select": {"type": "point", "fields": [field]}, "bind": "legend"}
    return parameter, {"condition": {"param": "shown", "value": 1}, "value": 0.12}


_PADDING = {
    "left": 5,
    "top": 5,
    "right": 16,
    "bottom": 5,
}  # fonts elsewhere may be wider than those drawn with
_CONFIG: Spec = {
    "background": None,
    "font": _FONT,
    "padding": 6,
    "view": {"stroke": None},
    "axis": {
        "labelColor": MUTED,
        "titleColor": INK,
        "titleFontWeight": "normal",
        "labelFontSize": 12,
        "titleFontSize": 12.5,
        "gridColor": GRID,
        "domainColor": GRID,
        "tickColor": GRID,
        "labelPadding": 5,
        "titlePadding": 8,
    },
    "legend": {
        "orient": "top",
        "labelColor": INK,
        "labelFontSize": 12.5,
        "symbolStrokeWidth": 2,
        "symbolType": "circle",
        "columnPadding": 24,
        "unselectedOpacity": 0.65,  # a curve that is not shown is still a button that must be read: contrast 5
        "offset": 4,
        "labelLimit": 260,
    },
    "text": {"color": MUTED, "fontSize": 12},
    "rule": {"color": MUTED},
}
