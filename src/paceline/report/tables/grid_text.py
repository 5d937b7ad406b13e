"""One table as Markdown, LaTeX, CSV or plain text."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace

from tabulate import tabulate

from paceline.report.document import Table
from paceline.report.escape import ascii_text, csv_cell, latex_text, markdown_text
from paceline.report.tables.folded import folded, wrapped_cell

__all__ = ["csv_of", "latex_of", "markdown_of", "plain_of"]

_LETTERS = 92  # of small type on a line of an article
_LONG = 34  # a cell of so many letters is broken into lines
_WORD = 24  # letters that fit a broken cell


def markdown_of(table: Table) -> str:
    """A GitHub-flavoured Markdown table."""
    return _set(table, "github", markdown_text)


def plain_of(table: Table, *, width: int) -> str:
    """Columns of plain ASCII; a table that is wider comes as several."""
    columns = tuple(replace(column, name=_plain(column.name)) for column in table.columns)
    plain = replace(table, columns=columns, rows=tuple(tuple(map(_plain, row)) for row in table.rows))
    return "\n\n".join(_set(part, "simple", wrapped_cell) for part in folded(plain, width=width))


def _plain(text: str) -> str:
    return " ".join(ascii_text(text).split())


def latex_of(table: Table) -> str:
    """A booktabs table with its caption, to be set as it is: \\usepackage{booktabs,graphicx,textcomp}."""
    parts = [line for part in folded(table, width=_LETTERS) for line in ("", *_tabular(part))]
    lines = [
        r"\begin{table}",
        r"\centering\small",
        rf"\caption{{{latex_text(table.caption)}}}",
        rf"\label{{tab:{_label(table.id)}}}",
        *parts[1:],
        r"\end{table}",
    ]
    return "\n".join(lines)


def _tabular(table: Table) -> list[str]:
    """The cells, made narrower where they are wider than the line; text of many words is broken."""
    align = "".join(_alignment(table, i) for i in range(len(table.columns)))
    return [
        r"\sbox0{%",
        rf"\begin{{tabular}}{{{align}}}",
        r"\toprule",
        _latex_row(tuple(column.name for column in table.columns)),
        r"\midrule",
        *(_latex_row(row) for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}}%",
        r"\ifdim\wd0>\linewidth\resizebox{\linewidth}{!}{\usebox0}\else\usebox0\fi\par\medskip",
    ]


def _alignment(table: Table, column: int) -> str:
    """A cell of many words is broken into lines; a long word cannot be."""
    if table.columns[column].number:
        return "r"
    cells = [row[column] for row in table.rows]
    longest_word = max((len(word) for cell in cells for word in cell.split()), default=0)
    long = max(map(len, cells), default=0) > _LONG
    return r"p{0.35\linewidth}" if long and longest_word < _WORD else "l"


def csv_of(table: Table) -> str:
    """The same cells as comma-separated values."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([csv_cell(column.name) for column in table.columns])
    writer.writerows([csv_cell(cell) for cell in row] for row in table.rows)
    return file.getvalue()


def _set(table: Table, form: str, escape: Callable[[str], str]) -> str:
    return tabulate(
        [[escape(cell) for cell in row] for row in table.rows],
        headers=[escape(column.name) for column in table.columns],
        tablefmt=form,
        disable_numparse=True,
        colalign=["right" if column.number else "left" for column in table.columns] if table.rows else None,
    )


def _latex_row(cells: tuple[str, ...]) -> str:
    return " & ".join(latex_text(cell) for cell in cells) + r" \\"


def _label(text: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in text)
