"""Progress on stderr: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from paceline.cli.text.guard import shown, unguarded
from paceline.core.units import duration_text, estimate_text
from paceline.records import Point, Study, Trial, TrialResult
from paceline.run.missing import given_up, settled, step_estimate
from paceline.run.study import Listener, Progress
from paceline.store.worker_files import Heartbeat

__all__ = ["LiveTable", "PlainLines", "progress_listener"]


@contextmanager
def progress_listener(study: Study) -> Iterator[Listener]:
    """The listener that suits where stderr goes. NO_COLOR and TERM=dumb are respected by rich itself."""
    console = Console(file=unguarded(sys.stderr))
    if not console.is_terminal or console.is_dumb_terminal:
        yield PlainLines(study, sys.stderr)
        return
    # slow refresh: the desk shares the machine with what it measures
    with Live(console=console, refresh_per_second=2, transient=True) as live:
        yield LiveTable(study, live)


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
        said = "too few steps to measure" if step is None else f"step {estimate_text(step, factor=1e3)} ms"
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


class LiveTable:
    """A table that follows the study. Estimates are renewed between trials, not while one is measured."""

    def __init__(self, study: Study, live: Live) -> None:
        self._study = study
        self._live = live
        self._rows: dict[str, tuple[str, str, str]] = {}
        self._now: dict[str, tuple[Trial, str]] = {}  # trials under way; of an array several
        self._left = ""
        self._unfit: set[str] = set()

    def started(self, trial: Trial, progress: Progress) -> None:
        self._renew(progress)
        self._now[trial.id] = (trial, "starting")
        self._show()

    def stepped(self, trial: Trial, beats: tuple[Heartbeat, ...]) -> None:
        steps = min((beat.steps for beat in beats), default=0)
        self._now[trial.id] = (trial, f"step {steps}" if steps else "starting")
        self._show()

    def ended(self, result: TrialResult, progress: Progress) -> None:
        self._renew(progress)
        self._now.pop(result.trial.id, None)
        self._show()

    def skipped(self, point: Point, why: str) -> None:
        self._unfit.add(point.id)
        self._live.console.print(Text(shown(f"{point.id} does not fit: {why}")))

    def _renew(self, progress: Progress) -> None:
        self._left = f"{len(progress.missing)} runs left, about {duration_text(progress.eta_s)}"
        for point in progress.plan.points:
            own = [result for result in progress.results if result.trial.point.id == point.id]
            step = estimate_text(step_estimate(point, progress.results, self._study), factor=1e3)
            self._rows[point.id] = (
                f"{len(own)} of {self._study.repeats}",
                step,
                self._state(point, progress),
            )

    def _show(self) -> None:
        table = Table(
            "setting", "runs", "step ms", "now", title=Text(shown(self._study.name)), caption=self._left
        )
        for name, (launches, step, state) in self._rows.items():
            now = ", ".join(text for trial, text in self._now.values() if trial.point.id == name)
            table.add_row(*(Text(shown(cell)) for cell in (name, launches, step, now or state)))
        self._live.update(table)

    def _state(self, point: Point, progress: Progress) -> str:
        if given_up(point, progress.results) is not None:
            return next(r.state for r in reversed(progress.results) if r.trial.point.id == point.id)
        if point.id in progress.left_out or point.id in self._unfit:
            return "left out"
        if settled(point, progress.results, self._study):
            return "settled"
        return "waiting" if any(trial.point.id == point.id for trial in progress.missing) else "done"
