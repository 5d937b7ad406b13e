"""What a training said about itself: marks that the agent recorded, and the metrics file of our own workloads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Mark", "marks", "metric_lines"]


@dataclass(frozen=True, slots=True)
class Mark:
    """One metric at one moment: after step k, at this second of the worker's clock."""

    name: str
    value: float
    k: int
    end_s: float


def marks(trial: Path) -> tuple[Mark, ...]:
    """The marks of the first worker, in the order in which they were made."""
    found = []
    for line in _objects(trial / "worker-0.jsonl"):
        if line.get("record") == "mark":
            name, value, k, end_s = (line.get(key) for key in ("name", "value", "k", "end_s"))
            if isinstance(value, int | float) and isinstance(k, int) and isinstance(end_s, int | float):
                found.append(Mark(str(name), float(value), k, float(end_s)))
    return tuple(found)


def metric_lines(path: Path) -> list[dict[str, object]]:
    """The lines of a metrics file so far; a last one that is still being written is left out."""
    return _objects(path)


def _objects(path: Path) -> list[dict[str, object]]:
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
