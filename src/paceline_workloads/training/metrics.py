"""What a training says about itself, as data: JSON lines in a file, and the agent's `mark` where one is watching."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

try:
    from paceline_agent import mark
except ImportError:  # these scripts run without Paceline too

    def mark(name: str, value: float) -> None:
        """Nobody is watching."""


__all__ = ["note"]

_HELD_OUT = "test_"  # judged once, at the end


def note(path: Path | None, record: str, values: Mapping[str, object]) -> None:
    """Append one line. Numbers that JSON has no word for (a loss that is lost) become null."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"record": record, **{key: _plain(v) for key, v in values.items()}}) + "\n")
    for name, value in values.items():
        said = record == "epoch" or (record == "end" and name.startswith(_HELD_OUT))
        if said and isinstance(value, int | float) and math.isfinite(value):
            mark(name, float(value))


def _plain(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
