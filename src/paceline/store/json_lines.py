"""Files of JSON lines that somebody may still be writing."""

from __future__ import annotations

from pathlib import Path

from paceline.core.json_text import json_of

__all__ = ["json_lines", "unreadable_lines"]


def json_lines(path: Path) -> list[dict[str, object]]:
    """The objects in the file so far; what is not one, such as a last line cut short, is passed over."""
    return [value for line in _lines(path) if (value := _object(line)) is not None]


def unreadable_lines(path: Path) -> int:
    """How many lines hold no object."""
    return sum(_object(line) is None for line in _lines(path))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _object(line: str) -> dict[str, object] | None:
    try:
        value = json_of(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
