"""A script's training ends when its metric has reached the target: on all workers after the same step.

Without a collective: the first worker notes in the trial's folder "stop after step k + 2" before it begins step k + 1.
Nobody ends step k + 1 without the first worker's gradients, so every worker that looks after step k + 1 finds the note.
On one host only: on several, a shared file system may show the note too late.
"""

from __future__ import annotations

import json
import os
from typing import Optional

from paceline_agent.record import files
from paceline_agent.watch.metrics import is_pattern, metric_name

_NOTE = "target.json"


class Target:
    """The metric that decides, and the step after which all workers leave."""

    def __init__(self, folder: str, *, target: float, metric: Optional[str], rises: bool) -> None:
        self._path = os.path.join(folder, _NOTE)
        self._folder, self._target, self._rises = folder, target, rises
        self._metric = metric_name(metric) if metric is not None and is_pattern(metric) else metric
        self._last: Optional[int] = None

    def noted(self, name: str, value: float, k: int) -> None:
        """A metric was marked after step k."""
        if not self._decides(name) or self._last is not None or os.environ.get("RANK", "0") != "0":
            return
        if os.environ.get("LOCAL_WORLD_SIZE", "1") != os.environ.get("WORLD_SIZE", "1"):
            return
        if value >= self._target if self._rises else value <= self._target:
            files.write_json(self._folder, _NOTE, {"after": k + 2, "value": value})

    def _decides(self, name: str) -> bool:
        """The metric that was asked for; where none was, an accuracy that is not of what is learned from."""
        if self._metric is not None:
            return name == self._metric
        return "acc" in name.lower() and not name.lower().startswith("train")

    def ends(self, k: int) -> bool:
        """Whether step k, which has just ended, was the last."""
        if self._last is None and os.path.exists(self._path):
            with open(self._path, encoding="utf-8") as file:
                self._last = int(json.load(file)["after"])
        return self._last is not None and k >= self._last
