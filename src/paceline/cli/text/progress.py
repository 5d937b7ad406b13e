"""Progress on stderr: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.live import Live

from paceline.cli.text.guard import unguarded
from paceline.cli.text.live import LiveTable
from paceline.core.units import duration_text, rough_text
from paceline.records import Point, Study, Trial, TrialResult
from paceline.run.clock import SystemClock
from paceline.run.missing import step_estimate
from paceline.run.study import Listener, Progress
from paceline.store.paths import StudyFolder
from paceline.store.worker_files import Heartbeat

__all__ = ["PlainLines", "progress_listener"]


@contextmanager
def progress_listener(folder: StudyFolder, study: Study) -> Iterator[Listener]:
    """The listener that suits where stderr goes. NO_COLOR and TERM=dumb are respected by rich itself."""
    console = Console(file=unguarded(sys.stderr))
    if not console.is_terminal or console.is_dumb_terminal:
        yield PlainLines(study, sys.stderr)
        return
    table = LiveTable(study, folder=folder, clock=SystemClock())
    # slow refresh: the desk shares the machine with what it measures
    with Live(console=console, get_renderable=table.drawn, refresh_per_second=1, transient=True):
        yield table


class PlainLines:
    """A line when a trial begins and one when it ends, which names it where others have begun meanwhile."""

    def __init__(self, study: Study, file: TextIO) -> None:
        self._study = study
        self._file = file
        self._last = ""

    def started(self, trial: Trial, progress: Progress) -> None:
        left = f"{len(progress.missing)} left, about {duration_text(progress.eta_s)}"
        print(f"run {trial.id} ({left})", file=self._file, flush=True)
        self._last = trial.id

    def stepped(self, trial: Trial, beats: tuple[Heartbeat, ...]) -> None:
        return None

    def ended(self, result: TrialResult, progress: Progress) -> None:
        point = result.trial.point
        step = step_estimate(point, progress.results, self._study)
        said = "too few steps to measure" if step is None else f"step {rough_text(step, factor=1e3)} ms"
        said = said if result.state == "ok" else result.reason or result.state
        name = "" if result.trial.id == self._last else f"{result.trial.id}: "
        took = f"{name}{result.state} in {duration_text(result.wall_s)}"
        print(f"  {took}: {said}", file=self._file, flush=True)
        self._last = ""

    def skipped(self, point: Point, why: str) -> None:
        print(
            f"{point.id} is left out, it does not fit: {why}; --try-anyway runs it",
            file=self._file,
            flush=True,
        )
