"""Text -> cells: CSV with comma or semicolon, TSV, Markdown, aligned columns; long tables are widened."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence

from paceline.core.errors import TableError
from paceline.table.columns import column

__all__ = ["table_cells"]

Lines = list[tuple[int, list[str]]]


def table_cells(text: str) -> Lines:
    """Line number and cells of every line that holds some, the heading first."""
    lines = _split(text)
    return _widened(lines) if lines else []


def _split(text: str) -> Lines:
    """Line number and cells of every line that holds some."""
    lines = [
        (n, line.strip("\r\n")) for n, line in enumerate(text.lstrip("\ufeff").split("\n"), 1) if line.strip()
    ]
    lines = [
        (n, line) for n, line in lines if not line.lstrip().startswith("#") or "," in line or "|" in line
    ]
    if not lines:
        return []
    head = lines[0][1]
    if "|" in head and not head.count(",") > head.count("|"):
        rows = [(n, [cell.strip() for cell in line.strip().strip("|").split("|")]) for n, line in lines]
        return [
            (n, cells) for n, cells in rows if not all(re.fullmatch(r":?-{1,}:?|", cell) for cell in cells)
        ]
    for separator in ("\t", ";", ","):
        if separator in head:
            return _separated(lines, separator)
    if re.search(r"\S {2,}\S", head.strip()):
        return [(n, re.split(r" {2,}|\t", line.strip())) for n, line in lines]
    return [(n, line.split()) for n, line in lines]


def _separated(lines: Sequence[tuple[int, str]], separator: str) -> Lines:
    reader = csv.reader((line for _, line in lines), delimiter=separator, skipinitialspace=True)
    rows: Lines = []
    try:
        for cells in reader:
            line = lines[min(reader.line_num, len(lines)) - 1][0]
            rows.append((line, [cell.strip() for cell in cells]))
    except csv.Error as error:
        raise TableError(
            f"line {reader.line_num}: {error}", hint="quote cells that hold the separator"
        ) from None
    if separator == ";":  # a table with semicolons may use the decimal comma
        rows = [(n, [re.sub(r"^(\d+),(\d+)$", r"\1.\2", cell) for cell in cells]) for n, cells in rows]
    return [(n, cells) for n, cells in rows if any(cells)]


def _widened(lines: Lines) -> Lines:
    """A long table (one row per metric and value) as a wide one: every metric becomes a column."""
    (first, heading), *body = lines
    names = [name.strip().lower() for name in heading]
    if "metric" not in names or "value" not in names:
        return lines
    metric, value = names.index("metric"), names.index("value")
    dropped = {metric, value, *(i for i, name in enumerate(names) if name in ("unit", "units"))}
    kept = [i for i in range(len(heading)) if i not in dropped]
    metrics = list(dict.fromkeys(cells[metric] for _, cells in body if len(cells) > max(metric, value)))
    known = [name for name in metrics if column(0, name) is not None]
    rows = []
    for line, cells in body:
        if len(cells) > max(metric, value) and cells[metric] in known:
            own = [cells[i] if i < len(cells) else "" for i in kept]
            rows.append((line, own + [cells[value] if name == cells[metric] else "" for name in known]))
    return [(first, [heading[i] for i in kept] + known), *rows]
