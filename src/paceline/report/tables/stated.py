"""What a table states of computing, communication and bandwidth, beside the time that was measured."""

from __future__ import annotations

from paceline.core.units import TIME_OF, estimate_text, rate_text
from paceline.records import Analysis, series_names
from paceline.report.charts.series import unit_of
from paceline.report.charts.stated import stated_kind, stated_whole
from paceline.report.charts.steps import time_unit
from paceline.report.document import Column, Table
from paceline.report.tables.cells import quantity_text, table_of, without_dull

__all__ = ["stated_table"]


def stated_table(analysis: Analysis) -> Table | None:
    """Every setting for which the table states some of it."""
    found = [p for p in analysis.points if p.stated_compute_s or p.stated_exchange_s or p.stated_bytes_per_s]
    if not found:
        return None
    kind = stated_kind(analysis)
    wholes = [stated_whole(p, kind) for p in found]
    factor, unit = time_unit([time.value for time in wholes if time is not None])
    names = series_names([p.point for p in found])
    heads = (
        "line",
        f"{unit_of(analysis)}s",
        f"{TIME_OF[kind]} ({unit})",
        f"computing ({unit})",
        f"communication ({unit})",
    )
    rows = [
        (
            names[p.point],
            str(p.point.workers),
            estimate_text(time, factor=factor),
            estimate_text(p.stated_compute_s, factor=factor),
            estimate_text(p.stated_exchange_s, factor=factor),
            quantity_text(p.stated_bytes_per_s, rate_text),
        )
        for p, time in zip(found, wholes, strict=True)
    ]
    columns = tuple(Column(head, number=head != "line") for head in (*heads, "bandwidth"))
    caption = "Computing, communication and bandwidth as the table states them."
    return without_dull(table_of("stated", caption, columns, rows))
