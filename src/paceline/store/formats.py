"""Files of a Paceline that is newer than this one are refused: what they mean can only be guessed."""

from __future__ import annotations

from pathlib import Path

from paceline.errors import StudyError

__all__ = ["refuse_newer"]


def refuse_newer(path: Path, found: object, *, known: int) -> None:
    """A StudyError when a file says that it has a later format than `known`."""
    if isinstance(found, int) and found > known:
        raise StudyError(
            f"{path} has format {found}, and this Paceline reads formats up to {known}",
            hint="read it with the Paceline that wrote it, or a newer one",
        )
