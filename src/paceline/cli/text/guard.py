r"""What a script, a table or a file name brought with it is shown on a terminal, not sent to it.

A log may hold sequences that clear the screen, rename the window or write a line over the answer. Everything that is
printed passes here, and a control character comes out as \u001b: what JSON calls it, so that JSON stays the same data.
What draws on the terminal itself (progress) writes around it, and asks `shown` for the words of others.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

__all__ = ["guarded", "shown", "unguarded"]

_RETURN = re.compile("\r\n?")
# C0 without tab, line feed and form feed; DEL and C1; marks that turn the direction of writing
_CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def shown(text: str) -> str:
    """The text without anything that a terminal would obey; a return becomes the end of the line."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", _RETURN.sub("\n", text))


@contextmanager
def guarded() -> Iterator[None]:
    """While this lasts, what is printed is shown."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, _Guard(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def unguarded(stream: TextIO) -> TextIO:
    """The stream itself, for what draws or must arrive byte for byte."""
    return stream.inner if isinstance(stream, _Guard) else stream


class _Guard:
    """A stream that shows what it is given."""

    def __init__(self, inner: TextIO) -> None:
        self.inner = inner

    def write(self, text: str) -> int:
        self.inner.write(shown(text))
        return len(text)

    def writelines(self, lines: Iterator[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)
