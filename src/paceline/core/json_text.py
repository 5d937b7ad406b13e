"""JSON that somebody else may have written: what cannot be read is a ValueError, however it is broken.

A number too large for a float is infinite, and so unknown to whoever asks for a finite one; json.loads would give
an integer of any length, which fails where it is first reckoned with. Nesting without end is no data either. What a
newer Paceline wrote is refused: its meaning can only be guessed.
"""

from __future__ import annotations

import json
from typing import Any

from paceline.core.errors import StudyError

__all__ = ["json_of", "refuse_newer"]

_MOST_DIGITS = 18  # more than any count, size or time has


def json_of(text: str | bytes) -> Any:
    """The data in a text; a ValueError where it is none."""
    try:
        return json.loads(text, parse_int=_whole)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def refuse_newer(path: object, found: object, *, known: int) -> None:
    """A StudyError when a file says that it has a later format than `known`."""
    if isinstance(found, int) and found > known:
        raise StudyError(
            f"{path} has format {found}, and this Paceline reads formats up to {known}",
            hint="read it with the Paceline that wrote it, or a newer one",
        )


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)
