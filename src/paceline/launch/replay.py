"""A launcher that computes nothing: it answers each trial with a recorded one. For tests, demos and teaching.

    ReplayLauncher(Path("recorded-study"))

A trial is answered by the recorded trial of the same id, else by one of as many workers; asked for a count
that was never recorded it fails like a launcher that cannot start.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from paceline.launch.command import Command

__all__ = ["ReplayLauncher"]

_RECORDED = (
    *("worker-*.jsonl", "manifest-*.json", "exit-*.json", "heartbeat-*", "out-*.log", "stacks-*.txt"),
    *("telemetry-*.jsonl", "lost-*.json", "standing-*.json"),
)


@dataclass(frozen=True, slots=True)
class ReplayLaunch:
    """A trial that is over before it began."""

    code: int

    def exit_code(self) -> int | None:
        return self.code

    def ask_stacks(self, pid: int) -> bool:
        return False

    def end(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class ReplayLauncher:
    """Answers trials from a recorded study folder."""

    recorded: Path

    def start(self, command: Command, output: BinaryIO) -> ReplayLaunch:
        target = Path(command.trial_dir)
        workers = int(json.loads(command.environment["PACELINE_TRIAL"])["workers"])
        source = self._recording(target.name, workers)
        if source is None:
            output.write(f"nothing recorded for {workers} workers in {self.recorded}\n".encode())
            return ReplayLaunch(1)
        for pattern in _RECORDED:
            for file in source.glob(pattern):
                shutil.copyfile(file, target / file.name)
        log = source / "launcher.log"
        if log.exists():
            output.write(log.read_bytes())
        return ReplayLaunch(0 if _state(source) == "ok" else 1)

    def end_leftovers(self, study_tag: str) -> int:
        return 0

    def _recording(self, trial_id: str, workers: int) -> Path | None:
        trials = self.recorded / "trials"
        if (trials / trial_id / "trial.json").exists():
            return trials / trial_id
        same = [
            file.parent for file in sorted(trials.glob("*/trial.json")) if _workers(file.parent) == workers
        ]
        return same[int(trial_id.rpartition("-")[2]) % len(same)] if same else None


def _state(trial: Path) -> object:
    return json.loads((trial / "trial.json").read_text(encoding="utf-8"))["state"]


def _workers(trial: Path) -> int:
    return int(json.loads((trial / "trial.json").read_text(encoding="utf-8"))["trial"]["point"]["workers"])
