"""Tables of others' libraries: rows of an Analysis as a DataFrame, and a DataFrame as the text of a table."""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Literal

from paceline.core.errors import TableError, UsageError
from paceline.core.estimate import Estimate
from paceline.records import Analysis, Point

__all__ = ["Kind", "frame", "rows", "table_text_of"]

Kind = Literal["points", "projections", "findings", "recommendations"]
_KINDS = ("points", "projections", "findings", "recommendations")


def rows(analysis: Analysis, what: Kind) -> list[dict[str, object]]:
    """Plain numbers and texts. A quantity that is an interval takes three columns; records inside are left out."""
    if what not in _KINDS:
        raise UsageError(f"{what!r} is no table of a result", hint=f"one of {', '.join(_KINDS)}")
    return [dict(_cells(record)) for record in getattr(analysis, what)]


def _cells(record: object) -> Iterator[tuple[str, object]]:
    for field in fields(record):  # type: ignore[arg-type]  # one of our records
        value = getattr(record, field.name)
        if isinstance(value, Point):
            yield "setting", value.id
            yield from (cell for cell in _cells(value) if cell[0] not in ("id", "varied"))
            yield from value.varied
        elif isinstance(value, Estimate) or (value is None and "Estimate" in str(field.type)):
            yield field.name, None if value is None else value.value
            yield f"{field.name}_low", None if value is None else value.low
            yield f"{field.name}_high", None if value is None else value.high
        elif value is None or isinstance(value, (str, int, float)):
            yield field.name, value


def frame(found: Sequence[Mapping[str, object]]) -> object:
    """A DataFrame of pandas, else of polars."""
    for library in ("pandas", "polars"):
        try:
            return importlib.import_module(library).DataFrame(found)
        except ModuleNotFoundError as problem:
            if problem.name != library:
                raise
    raise UsageError(
        "a DataFrame needs pandas or polars, and neither is installed",
        hint="pip install pandas, or to_rows()",
    )


def table_text_of(data: object) -> str:
    """CSV of a DataFrame (pandas, polars) or of rows as dicts; text is a table already."""
    if isinstance(data, str):
        return data
    for method, options in (("to_csv", {"index": False}), ("write_csv", {})):
        if callable(write := getattr(data, method, None)):
            return str(write(**options))
    if isinstance(data, Sequence) and data and all(isinstance(row, Mapping) for row in data):
        file = io.StringIO()
        names = list(dict.fromkeys(name for row in data for name in row))
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(data)
        return file.getvalue()
    raise TableError(
        f"a {type(data).__name__} is no table", hint="give a path, a DataFrame, rows as dicts, or text"
    )
