"""Text that fits where it is read: broken at words, a wide table folded into several, each with its first columns.

Only a terminal has a width. A file or a pipe gets every line whole, so that what was printed can be searched.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from textwrap import wrap

__all__ = ["bold", "fitted", "folded_table", "narrowed", "terminal_width"]

_NARROWEST = 40
_GAP = 2  # between two columns


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
    sizes = _sizes(heads, texts)
    parts = _parts(sizes, first=first, width=width)
    return "\n\n".join("\n".join(_lines(heads, texts, sizes, part)) for part in parts)


def narrowed(
    heads: Sequence[str], rows: Sequence[Sequence[object]], *, optional: Sequence[str], width: int | None
) -> list[int]:
    """The columns that are left when optional ones are given up, in their order, until the table fits."""
    sizes = _sizes(heads, [[str(cell) for cell in row] for row in rows])
    kept = list(range(len(heads)))
    for name in optional:
        if width is None or sum(sizes[i] for i in kept) + _GAP * (len(kept) - 1) <= width:
            break
        kept = [i for i in kept if heads[i] != name]
    return kept


def bold(text: str, colour: int) -> str:
    """In bold and in colour, where stdout is a terminal that shows them and nobody asked for plain text."""
    plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain else f"\x1b[1;{colour}m{text}\x1b[0m"


def _sizes(heads: Sequence[str], texts: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(head), *(len(row[i]) for row in texts), 0) for i, head in enumerate(heads)]


def _lines(
    heads: Sequence[str], texts: Sequence[Sequence[str]], sizes: Sequence[int], part: Sequence[int]
) -> Iterator[str]:
    """The lines of one table, every cell set to the right."""
    for cells in (heads, ["-" * size for size in sizes], *texts):
        yield (" " * _GAP).join(cells[i].rjust(sizes[i]) for i in part).rstrip()


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
