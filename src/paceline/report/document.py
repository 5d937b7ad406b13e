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
    kinds: tuple[str, ...] = ()  # of the rows, where some differ in kind: measured, predicted, no-prediction


@dataclass(frozen=True, slots=True)
class Figure:
    """One chart: its Vega-Lite specification, a caption of one line, and how to read it where that needs saying."""

    id: str
    title: str
    caption: str
    spec: Spec
    wide: bool = False  # takes the whole width of a page
    how: str = ""

    @property
    def whole_caption(self) -> str:
        """For paper, where nothing is folded away."""
        return f"{self.caption} {self.how}".strip()


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the report: a heading, sentences, figures, tables."""

    id: str
    title: str
    sentences: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
