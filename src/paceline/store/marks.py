"""The newest mark of a metric in a run that is under way, read from where the last look ended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from paceline.core.json_text import json_of

__all__ = ["Marks"]

_JUDGED = "val_"  # what is followed where nobody named a metric


@dataclass(slots=True)
class Marks:
    """How often the first worker has marked the metric, and its newest value; None before the first mark."""

    trial: Path
    name: str | None
    count: int = 0
    value: float | None = None
    _offset: int = 0
    _rest: bytes = b""

    def look(self) -> None:
        """Read what was written since. A file that cannot be read says nothing new."""
        try:
            with open(self.trial / "worker-0.jsonl", "rb") as file:
                file.seek(self._offset)
                new = file.read()
        except OSError:
            return
        self._offset += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        for line in lines:
            if b'"mark"' in line:
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            told = json_of(line.decode(errors="replace"))
        except ValueError:
            return
        if not isinstance(told, dict) or told.get("record") != "mark":
            return
        name, value = str(told.get("name")), told.get("value")
        if self.name is None and name.startswith(_JUDGED):
            self.name = name
        if name == self.name and isinstance(value, int | float):
            self.count, self.value = self.count + 1, float(value)
