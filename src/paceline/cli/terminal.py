"""Text that fits where it is read: broken at words, a wide table folded into several, each with its first columns.

Only a terminal has a width. A file or a pipe gets every line whole, so that what was printed can be searched.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from textwrap import wrap

from tabulate import tabulate

__all__ = ["fitted", "folded_table", "terminal_width"]

_NARROWEST = 40
_GAP = 2  # between two columns
_PADDING = 2  # that tabulate gives every head


def terminal_width() -> int | None:
    """Columns of the terminal that stdout goes to; None where it goes elsewhere."""
    return max(_NARROWEST, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None


def fitted(line: str, width: int | None, *, indent: int = 0) -> Iterator[str]:
    """One line as lines of at most `width`; a long word stays whole, so that it can be copied."""
    if width is None or len(line) <= width:
        yield line
        return
    lead = line[: len(line) - len(line.lstrip())]
    yield from wrap(
        line.lstrip(),
        width,
        initial_indent=lead,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def folded_table(
    heads: Sequence[str], rows: Sequence[Sequence[object]], *, first: int, width: int | None
) -> str:
    """A table, or as many tables below each other as the width asks for; the `first` columns stand in each."""
    texts = [[str(cell) for cell in row] for row in rows]
    sizes = [max(len(head) + _PADDING, *(len(row[i]) for row in texts), 0) for i, head in enumerate(heads)]
    parts = _parts(sizes, first=first, width=width)
    return "\n\n".join(
        tabulate(
            [[row[i] for i in part] for row in texts],
            headers=[heads[i] for i in part],
            tablefmt="simple",
            disable_numparse=True,
            stralign="right",
        )
        for part in parts
    )


def _parts(sizes: Sequence[int], *, first: int, width: int | None) -> list[list[int]]:
    """The columns of each table: the first ones, and as many of the others as fit."""
    keys = list(range(first))
    parts: list[list[int]] = []
    for column in range(first, len(sizes)):
        grown = [*(parts[-1] if parts else keys), column]
        whole = sum(sizes[i] for i in grown) + _GAP * (len(grown) - 1)
        if not parts or (width is not None and whole > width):
            parts.append([*keys, column])
        else:
            parts[-1] = grown
    return parts or [keys]
