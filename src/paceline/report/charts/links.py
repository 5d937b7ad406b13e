"""Is my bandwidth normal? What a probe measured of the links, against message size, beside the specification.

measured         circles on a line, one line per link class, backend and worker count
specification    a dotted level line: the nominal rate in one direction
this study       a star at the bytes of one exchange and the bus bandwidth that the training itself reached
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10

from paceline.core.units import bytes_text, duration_text, estimate_text, rate_text
from paceline.records import Analysis, LinkProbe
from paceline.report.charts.theme import BYTES_LABEL, COLOURS, INK, MUTED, colour, toggled, whole
from paceline.report.document import Column, Figure, Spec, Table
from paceline.report.tables.cells import UNKNOWN, quantity_text, without_dull

__all__ = ["device_table", "link_figure", "link_table"]

_WIDTH, _HEIGHT = 640, 280
_OP = "all_reduce"
_PLACES = {"inside": "inside a node", "between": "between nodes"}


def link_figure(analysis: Analysis) -> Figure | None:
    """Bus bandwidth of all-reduce against message size; None without a probe."""
    rows = [row for link in analysis.links for row in _rows(link)]
    names = list(dict.fromkeys(str(row["line"]) for row in rows))[: len(COLOURS)]
    rows = [row for row in rows if row["line"] in names]
    if not rows:
        return None
    title = "Bus bandwidth by message size"
    parameter, opacity = toggled("line")
    shade = colour(names)
    rates = [float(str(row[end])) for row in rows for end in ("low", "high")]
    rates += [link.spec_bytes_per_s for link in analysis.links if link.spec_bytes_per_s]
    y: Spec = {
        "field": "rate",
        "type": "quantitative",
        "title": "bus bandwidth",
        "scale": {"type": "log", "nice": False, "padding": 14},
        "axis": {"values": _decades(rates), "labelExpr": BYTES_LABEL + " + '/s'"},
    }
    x: Spec = {
        "field": "size",
        "type": "quantitative",
        "title": "message size",
        "scale": {"type": "log", "nice": False, "padding": 14},
        "axis": {
            "values": _decades([float(str(row["size"])) for row in rows]),
            "labelExpr": BYTES_LABEL,
            "grid": False,
        },
    }
    tooltip: list[Spec] = [
        {"field": "size_text", "type": "nominal", "title": "size"},
        {"field": "text", "type": "nominal", "title": "bus bandwidth"},
        {"field": "line", "type": "nominal", "title": "link"},
    ]
    measured: Spec = {
        "data": {"values": rows},
        "layer": [
            {
                "params": [parameter],
                "mark": {"type": "rule", "strokeWidth": 1.5},
                "encoding": {
                    "y": {"field": "low"},
                    "y2": {"field": "high"},
                    "color": shade,
                    "opacity": opacity,
                },
            },
            {"mark": {"type": "line", "strokeWidth": 2}, "encoding": {"color": shade, "opacity": opacity}},
            {
                "mark": {"type": "point", "shape": "circle", "filled": True, "size": 55},
                "encoding": {"color": shade, "opacity": opacity, "tooltip": tooltip},
            },
        ],
    }
    spec: Spec = {
        "width": _WIDTH,
        "height": _HEIGHT,
        "encoding": {"x": x, "y": y},
        "layer": [*_specifications(analysis.links, rows), measured, *_this_study(analysis)],
    }
    caption = "Bus bandwidth of all-reduce (bytes per second, as in nccl-tests) against message size (bytes)."
    how = (
        "Circles: as a probe measured it, with 90% intervals over passes. Dotted: the specification, where it is "
        "known. Stars: what the training itself reached with the bytes of its step."
    )
    return Figure("links", title, caption, whole(spec, description=title), wide=True, how=how)


def link_table(analysis: Analysis) -> Table | None:
    """Every probed link beside its specification."""
    if not analysis.links:
        return None
    rows = tuple(
        (
            _PLACES[link.link],
            link.backend,
            str(link.workers),
            quantity_text(link.latency_s, duration_text),
            _bandwidth_text(link),
            UNKNOWN if link.cores_s_per_byte is None else duration_text(1e9 * link.cores_s_per_byte),
            UNKNOWN if link.busy_hop_s is None else quantity_text(link.busy_hop_s, duration_text),
            UNKNOWN if link.spec_bytes_per_s is None else rate_text(link.spec_bytes_per_s),
            link.spec or UNKNOWN,
        )
        for link in analysis.links
    )
    columns = (
        Column("link", number=False),
        Column("backend", number=False),
        Column("workers"),
        Column("latency per hop"),
        Column("bandwidth"),
        Column("cores busy per GB"),
        Column("computing adds per hop"),
        Column("specification"),
        Column("of", number=False),
    )
    caption = "Links as a probe measured them, in one direction; brackets: 90% intervals. What is usual: see findings."
    return without_dull(Table("links", caption, columns, rows))


def _bandwidth_text(link: LinkProbe) -> str:
    """The bandwidth, or the most that was seen where latency hides it."""
    if "bytes_per_s" in link.unidentified:
        return f"at least {rate_text(link.bytes_per_s.value)}"
    return quantity_text(link.bytes_per_s, rate_text)


def device_table(analysis: Analysis) -> Table | None:
    """Rates of the workers' devices beside their data sheet."""
    rows = tuple(
        (
            str(device.worker),
            device.name,
            rate.quantity,
            f"{estimate_text(rate.per_s, factor=1e-9)}",
            UNKNOWN if rate.spec_per_s is None else f"{rate.spec_per_s * 1e-9:,.0f}",
            device.spec or UNKNOWN,
        )
        for device in analysis.devices
        for rate in device.rates
    )
    if not rows:
        return None
    columns = (
        Column("worker"),
        Column("device", number=False),
        Column("what", number=False),
        Column("10⁹ per s"),
        Column("data sheet (10⁹ per s)"),
        Column("of", number=False),
    )
    caption = (
        "Rates of the devices: operations of a product of matrices, or bytes copied, with 90% intervals."
    )
    return without_dull(Table("devices", caption, columns, rows))


def _decades(values: Sequence[float]) -> list[float]:
    """Powers of ten around these values: where a logarithmic axis has its ticks."""
    known = [value for value in values if value > 0]
    return [10.0**k for k in range(floor(log10(min(known))), ceil(log10(max(known))) + 1)]


def _rows(link: LinkProbe) -> list[dict[str, object]]:
    return [
        {
            "line": f"{_PLACES[link.link]}, {link.backend}, {row.workers} workers",
            "size": row.size_bytes,
            "rate": row.bus_bytes_per_s.value,
            "low": row.bus_bytes_per_s.value if row.bus_bytes_per_s.low is None else row.bus_bytes_per_s.low,
            "high": row.bus_bytes_per_s.value
            if row.bus_bytes_per_s.high is None
            else row.bus_bytes_per_s.high,
            "text": quantity_text(row.bus_bytes_per_s, rate_text),
            "size_text": bytes_text(row.size_bytes),
        }
        for row in link.rows
        if row.op == _OP and row.bus_bytes_per_s.value > 0 and row.size_bytes > 0
        if row.bus_bytes_per_s.low is None or row.bus_bytes_per_s.low > 0
    ]


def _specifications(links: Sequence[LinkProbe], rows: Sequence[dict[str, object]]) -> list[Spec]:
    known = {link.spec_bytes_per_s: _PLACES[link.link] for link in links if (link.spec_bytes_per_s or 0) > 0}
    sizes = [float(str(row["size"])) for row in rows]
    levels = [
        {"size": size, "rate": rate, "place": place}
        for rate, place in known.items()
        for size in (min(sizes), max(sizes))
    ]
    if not levels:
        return []
    names = [{**level, "text": f"specification, {level['place']}"} for level in levels[::2]]
    return [
        {
            "data": {"values": levels},
            "mark": {
                "type": "line",
                "strokeDash": [1, 4],
                "strokeCap": "round",
                "strokeWidth": 2,
                "color": MUTED,
            },
            "encoding": {"detail": {"field": "place", "type": "nominal"}},
        },
        {
            "data": {"values": names},
            "mark": {"type": "text", "align": "left", "dy": -8, "fontStyle": "italic"},
            "encoding": {"text": {"field": "text"}},
        },
    ]


def _this_study(analysis: Analysis) -> list[Spec]:
    stars = [
        {
            "size": p.exchanged_bytes_per_step.value,
            "rate": p.bus_bytes_per_s.value,
            "size_text": bytes_text(p.exchanged_bytes_per_step.value),
            "text": quantity_text(p.bus_bytes_per_s, rate_text),
            "line": f"this training, {p.point.workers} workers",
        }
        for p in analysis.points
        if p.bus_bytes_per_s and p.exchanged_bytes_per_step and p.exchanged_bytes_per_step.value > 0
    ]
    if not stars:
        return []
    tooltip: list[Spec] = [
        {"field": "line", "type": "nominal", "title": "what"},
        {"field": "text", "type": "nominal", "title": "bus bandwidth"},
    ]
    star = "M0,-1L.28,-.35L.95,-.31L.43,.12L.59,.81L0,.44L-.59,.81L-.43,.12L-.95,-.31L-.28,-.35Z"
    return [
        {
            "data": {"values": stars},
            "mark": {"type": "point", "shape": star, "filled": True, "size": 130, "color": INK, "opacity": 1},
            "encoding": {"tooltip": tooltip},
        }
    ]
