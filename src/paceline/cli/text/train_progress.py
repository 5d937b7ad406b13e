"""Progress of a training on stderr: a bar and the last epoch on a terminal, one line per epoch elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from paceline.cli.text.guard import shown, unguarded
from paceline.core.units import duration_text
from paceline.records import Point, Trial, TrialResult
from paceline.run.study import Listener
from paceline.run.study import Progress as StudyProgress
from paceline.store.worker_files import Heartbeat

__all__ = ["epoch_text", "training_listener"]

Lines = Callable[[], Sequence[Mapping[str, object]]]


@contextmanager
def training_listener(lines: Lines, *, steps: int | None) -> Iterator[Listener]:
    """The listener that suits where stderr goes. `lines` gives the metrics written so far."""
    console = Console(file=unguarded(sys.stderr))
    if not console.is_terminal or console.is_dumb_terminal:
        yield _Watching(lines, lambda done: None, lambda text: print(text, file=sys.stderr, flush=True))
        return
    columns = (TextColumn("steps"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # slow refresh: the desk shares the machine with what it trains
    with Progress(*columns, console=console, refresh_per_second=2, transient=True) as bar:
        task = bar.add_task("steps", total=steps)
        yield _Watching(
            lines,
            lambda done: bar.update(task, completed=done),
            lambda text: console.print(Text(shown(text))),
        )


class _Watching:
    def __init__(self, lines: Lines, move: Callable[[int], None], say: Callable[[str], None]) -> None:
        self._lines, self._move, self._say = lines, move, say
        self._said = sum(line.get("record") == "epoch" for line in lines())  # of a training that is resumed

    def started(self, trial: Trial, progress: StudyProgress) -> None:
        return None

    def stepped(self, trial: Trial, beats: tuple[Heartbeat, ...]) -> None:
        self._move(min((beat.steps for beat in beats), default=0))
        self._epochs()

    def skipped(self, point: Point, why: str) -> None:
        return None

    def ended(self, result: TrialResult, progress: StudyProgress) -> None:
        self._epochs()

    def _epochs(self) -> None:
        epochs = [line for line in self._lines() if line.get("record") == "epoch"]
        for line in epochs[self._said :]:
            self._say(epoch_text(line))
        self._said = len(epochs)


def epoch_text(line: Mapping[str, object]) -> str:
    """One epoch as a line: epoch 3: train_loss 0.12, val_accuracy 0.97 (12.3 s)."""
    skipped = {"record", "epoch", "step", "samples", "wall_s", "train_s", "lr"}
    shown = [
        f"{name} {value:.4g}"
        for name, value in line.items()
        if name not in skipped and isinstance(value, float)
    ]
    wall_s = line.get("wall_s")
    took = f" ({duration_text(wall_s)})" if isinstance(wall_s, float) else ""
    return f"epoch {line.get('epoch')}: {', '.join(shown)}{took}"
