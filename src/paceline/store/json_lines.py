"""Files of JSON lines that somebody may still be writing."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["json_lines"]


def json_lines(path: Path) -> list[dict[str, object]]:
    """The objects in the file so far; what is not one, such as a last line cut short, is passed over."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found
