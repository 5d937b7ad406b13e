"""What a report consists of, before it is a page, a text or a table in a paper: plain data."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Column", "Figure", "Section", "Spec", "Table"]

Spec = dict[str, object]  # a Vega-Lite specification


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its heading with the unit, and whether it holds numbers (then it is set to the right)."""

    name: str
    number: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as text, to the precision of their interval. `id` is unique in a document."""

    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """One chart: its Vega-Lite specification, and the caption that says what is on both axes."""

    id: str
    title: str
    caption: str
    spec: Spec
    wide: bool = False  # takes the whole width of a page


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the report: a heading, sentences, figures, tables."""

    id: str
    title: str
    sentences: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
