"""Cells of tables: quantities as text to the precision of their interval; tables without columns that tell nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from paceline.core.units import gain_text, percent_text
from paceline.records import Estimate, Profile
from paceline.report.document import Column, Table

__all__ = ["UNKNOWN", "count_text", "listed", "quantity_text", "speedup_cells", "table_of", "without_dull"]

UNKNOWN = "–"
_INTERVALS = " ± and brackets: 90% intervals over runs."


def table_of(name: str, caption: str, columns: tuple[Column, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    """A table whose caption explains intervals where there are any."""
    intervals = any("±" in cell or "(" in cell for row in rows for cell in row)
    return Table(name, caption + (_INTERVALS if intervals else ""), columns, tuple(rows))


def without_dull(table: Table) -> Table:
    """The table without columns that tell nothing: unknown everywhere, or one node, one launch everywhere."""
    dull = {UNKNOWN, "1"}
    kept = [
        i
        for i, column in enumerate(table.columns)
        if column.name in ("workers", "GPUs") or not {row[i] for row in table.rows} <= dull
    ]
    rows = tuple(tuple(row[i] for i in kept) for row in table.rows)
    return replace(table, columns=tuple(table.columns[i] for i in kept), rows=rows)


def speedup_cells(profile: Profile) -> tuple[str, str]:
    """Speed-up and efficiency; of the Baseline they are one by definition, not by measurement."""
    if profile.speedup is not None and profile.speedup.low == profile.speedup.high == 1.0:
        return "1", "100%"
    return gain_text(profile.speedup), percent_text(profile.efficiency_ratio)


def quantity_text(quantity: Estimate | None, text: Callable[[float | None], str]) -> str:
    """A quantity with units in the number itself: 1.20 GB/s (1.10 GB/s to 1.31 GB/s)."""
    if quantity is None:
        return UNKNOWN
    if quantity.low is None or quantity.high is None or quantity.low == quantity.high:
        return text(quantity.value)
    value, low, high = text(quantity.value), text(quantity.low), text(quantity.high)
    return value if low == value == high else f"{value} ({low} to {high})"


def listed(value: object) -> str:
    """One value as text, or several joined; nothing where it is unknown."""
    if value is None:
        return ""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " and ".join(str(item) for item in value)
    return str(value)


def count_text(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)
