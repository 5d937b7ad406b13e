"""The metrics file of our own workloads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

__all__ = ["metric_lines"]


def metric_lines(path: Path) -> list[dict[str, object]]:
    """The lines of a metrics file so far; a last one that is still being written is left out."""
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
        if isinstance(value, Mapping):
            found.append(dict(value))
    return found
