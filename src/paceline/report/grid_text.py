"""One table as Markdown, LaTeX, CSV or plain text."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

from tabulate import tabulate

from paceline.report.document import Table
from paceline.report.escape import ascii_text, csv_cell, latex_text, markdown_text

__all__ = ["csv_of", "latex_of", "markdown_of", "plain_of"]


def markdown_of(table: Table) -> str:
    """A GitHub-flavoured Markdown table."""
    return _set(table, "github", markdown_text)


def plain_of(table: Table) -> str:
    """Columns of plain ASCII."""
    return _set(table, "simple", lambda text: " ".join(ascii_text(text).split()))


def latex_of(table: Table) -> str:
    """A booktabs table with its caption, to be set as it is: \\usepackage{booktabs,textcomp}."""
    align = "".join("r" if column.number else "l" for column in table.columns)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_text(table.caption)}}}",
        rf"\label{{tab:{_label(table.id)}}}",
        rf"\begin{{tabular}}{{{align}}}",
        r"\toprule",
        _latex_row(tuple(column.name for column in table.columns)),
        r"\midrule",
        *(_latex_row(row) for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines)


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
