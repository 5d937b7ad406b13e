"""A table that is wider than its paper, as several below each other: each begins with what names its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from textwrap import wrap

from paceline.report.document import Table

__all__ = ["folded", "wrapped_cell"]

_GAP = 2  # between two columns, and what tabulate gives every head
_LONGEST = 34  # of a cell in one line
_KEYS = ("line", "configuration", "workers", "GPUs", "nodes", "worker", "bucket")  # columns that name a row


def folded(table: Table, *, width: int) -> tuple[Table, ...]:
    """The parts, none wider than `width` letters where its first columns and any one other fit into it."""
    sizes = [
        max(len(column.name) + _GAP, *(_widest(row[i]) for row in table.rows), 0)
        for i, column in enumerate(table.columns)
    ]
    keys = [i for i, column in enumerate(table.columns[:2]) if column.name in _KEYS]
    parts: list[list[int]] = []
    for column in (i for i in range(len(sizes)) if i not in keys):
        grown = [*(parts[-1] if parts else keys), column]
        if not parts or sum(sizes[i] for i in grown) + _GAP * (len(grown) - 1) > width:
            parts.append([*keys, column])
        else:
            parts[-1] = grown
    return tuple(_part(table, columns) for columns in parts or [keys])


def wrapped_cell(text: str) -> str:
    """A long text in lines of its own."""
    return "\n".join(wrap(text, _LONGEST, break_on_hyphens=False)) if len(text) > _LONGEST else text


def _widest(cell: str) -> int:
    return max(map(len, wrapped_cell(cell).splitlines()), default=0)


def _part(table: Table, columns: Sequence[int]) -> Table:
    return replace(
        table,
        columns=tuple(table.columns[i] for i in columns),
        rows=tuple(tuple(row[i] for i in columns) for row in table.rows),
    )
