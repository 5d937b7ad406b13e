"""The live view of a study: a bar, elapsed time and a ticking estimate, and a line per setting.

Estimates of step times are renewed between runs, not while one is measured; what ticks is only the clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from paceline.cli.text.guard import shown
from paceline.core.units import rough_text
from paceline.records import Estimate, Point, Study, Trial, TrialResult
from paceline.run.clock import Clock
from paceline.run.missing import given_up, settled, step_estimate
from paceline.run.study import Progress
from paceline.store.marks import Marks
from paceline.store.paths import StudyFolder
from paceline.store.worker_files import Heartbeat

__all__ = ["LiveTable"]

_BAR = 30
_NEARLY = 0.95  # of a run that should have ended
_HEADS = ("setting", "runs", "step ms", "speed-up", "now")


class LiveTable:
    """Follows a study as its listener; what is drawn is asked for by whoever draws."""

    def __init__(self, study: Study, *, folder: StudyFolder | None, clock: Clock) -> None:
        self._study = study
        self._folder = folder
        self._clock = clock
        self._began_s = self._renewed_s = clock.monotonic_s()
        self._progress: Progress | None = None
        self._rows: dict[str, tuple[str, str, str, str]] = {}
        self._now: dict[str, tuple[Trial, int]] = {}  # runs under way with their steps; of an array several
        self._marks: dict[str, Marks] = {}
        self._unfit: set[str] = set()  # points that are left out: they do not fit into memory

    def started(self, trial: Trial, progress: Progress) -> None:
        self._now[trial.id] = (trial, 0)
        if self._study.goal is not None and self._folder is not None:
            self._marks[trial.id] = Marks(self._folder.trial(trial.id), self._study.goal.metric)
        self._renew(progress)

    def stepped(self, trial: Trial, beats: tuple[Heartbeat, ...]) -> None:
        self._now[trial.id] = (trial, min((beat.steps for beat in beats), default=0))
        if (marks := self._marks.get(trial.id)) is not None:
            marks.look()

    def ended(self, result: TrialResult, progress: Progress) -> None:
        self._now.pop(result.trial.id, None)
        self._marks.pop(result.trial.id, None)
        self._renew(progress)

    def skipped(self, point: Point, why: str) -> None:
        self._unfit.add(point.id)

    def drawn(self) -> RenderableType:
        """As of now: asked for a few times a second."""
        if self._progress is None:
            return Text("")
        table = Table(*_HEADS, title=Text(shown(self._study.name)))
        for name, (runs, step, speedup, state) in self._rows.items():
            now = ", ".join(self._doing(*one) for one in self._now.values() if one[0].point.id == name)
            table.add_row(*(Text(shown(cell)) for cell in (name, runs, step, speedup, now or state)))
        return Group(table, self._bar(self._progress))

    def _bar(self, progress: Progress) -> Table:
        """A bar of the whole study: runs that are done, and of the one under way what was expected of it.

        A run that takes longer than expected takes nothing of what the others are expected to take."""
        now_s = self._clock.monotonic_s()
        done, missing = len(progress.results), len(progress.missing)
        each_s, waited_s = progress.eta_s / max(1, missing), now_s - self._renewed_s
        left_s = progress.eta_s - min(waited_s, each_s)
        passed = done + (min(waited_s / each_s, _NEARLY) if each_s > 0 else 0.0)
        about = "about" if waited_s <= each_s else "more than"
        line = Table.grid(padding=(0, 1))
        line.add_row(
            ProgressBar(total=max(1, done + missing), completed=passed, width=_BAR),
            Text(f"{done} of {done + missing} runs"),
            Text(f"elapsed {_clock_text(now_s - self._began_s)}"),
            Text(f"left {about} {_clock_text(left_s)}"),
        )
        return line

    def _doing(self, trial: Trial, steps: int) -> str:
        marks = self._marks.get(trial.id)
        if self._study.goal is not None:
            if marks is not None and marks.value is not None:
                return f"epoch {marks.count}{_of(self._study.goal.epochs)}, {marks.name} {marks.value:.4g}"
            return f"step {steps}" if steps else "starting"
        whole = self._study.warmup + self._study.steps
        return f"step {min(steps, whole)} of {whole}" if steps else "starting"

    def _renew(self, progress: Progress) -> None:
        self._progress, self._renewed_s = progress, self._clock.monotonic_s()
        steps = {
            point.id: step_estimate(point, progress.results, self._study) for point in progress.plan.points
        }
        speedups = dict(_speedups(progress.plan.points, steps))
        for point in progress.plan.points:
            own = [result for result in progress.results if result.trial.point.id == point.id]
            speedup = speedups.get(point.id)
            self._rows[point.id] = (
                f"{len(own)} of {self._study.repeats}",
                rough_text(steps[point.id], factor=1e3),
                "–" if speedup is None else f"{speedup:.2f}x",
                self._state(point, progress),
            )

    def _state(self, point: Point, progress: Progress) -> str:
        if given_up(point, progress.results) is not None:
            return next(r.state for r in reversed(progress.results) if r.trial.point.id == point.id)
        if point.id in progress.left_out or point.id in self._unfit:
            return "left out"
        if settled(point, progress.results, self._study):
            return "settled"
        return "waiting" if any(trial.point.id == point.id for trial in progress.missing) else "done"


def _speedups(points: Sequence[Point], steps: dict[str, Estimate | None]) -> Iterator[tuple[str, float]]:
    """Work per second so far against the fewest workers of the same series; batches stand for the work."""
    for point in points:
        same = [p for p in points if p.series == point.series and steps[p.id] is not None]
        base = min(same, key=lambda p: p.workers, default=None)
        own, first = steps[point.id], None if base is None else steps[base.id]
        if own is None or first is None or base is None:
            continue
        yield point.id, _work(point) / own.value / (_work(base) / first.value)


def _work(point: Point) -> float:
    """Of one step: its samples where they are known, else what the scaling says."""
    return float(point.global_batch or (point.workers if point.scaling == "weak" else 1))


def _of(epochs: int | None) -> str:
    return "" if epochs is None else f" of {epochs}"


def _clock_text(seconds: float) -> str:
    """1:05, 1:02:07: a time that ticks in its place."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
