"""What a terminal shows while a study runs: a line per setting, a bar, a clock that ticks, a metric while training."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from rich.console import Console

from paceline.cli.text.live import LiveTable
from paceline.plan.trials import plan_study
from paceline.records import Goal, Study, Workload
from paceline.run.study import Progress, progress_of
from paceline.store.marks import Marks
from paceline.store.paths import StudyFolder
from paceline.store.study_file import read_study
from paceline.store.trial_files import read_results
from paceline.store.worker_files import Heartbeat

RECORDED = Path(__file__).parents[1] / "recorded" / "mnist-1-2"


@dataclass
class Watch:
    """A clock that stands until it is moved."""

    now_s: float = 0.0

    def monotonic_s(self) -> float:
        return self.now_s


def drawn(table, width=110):
    file = io.StringIO()
    Console(file=file, width=width).print(table.drawn())
    return file.getvalue()


@pytest.fixture
def half_done():
    """The recorded study when four of its six runs were complete, one of each count left."""
    study = read_study(RECORDED / "study.toml")
    results = read_results(StudyFolder(RECORDED))
    plan = plan_study(study)
    kept = tuple(r for r in results if not r.trial.id.endswith("-3"))
    todo = tuple(t for t in plan.trials if t.id.endswith("-3"))
    return study, plan, Progress(plan, kept, todo, 20.0, 0.0), todo


def test_a_line_per_setting_has_steps_of_all_steps_and_the_speed_up_so_far(half_done):
    study, _, progress, todo = half_done
    table = LiveTable(study, folder=None, clock=Watch())
    table.started(todo[0], progress)
    table.stepped(todo[0], (Heartbeat(0, 12, 1, 1), Heartbeat(1, 11, 2, 1)))
    lines = drawn(table).splitlines()
    (one,) = [line for line in lines if "step 11 of 30" in line]  # of 10 of warm-up and 20 that count
    (two,) = [line for line in lines if line.split("│")[1:2] == [" w2-b64  "] or "w2" in line]
    assert "1.00x" in one
    assert "1.7" in two


def test_the_estimate_ticks_between_runs_and_the_bar_counts_runs(half_done):
    study, _, progress, todo = half_done
    clock = Watch()
    table = LiveTable(study, folder=None, clock=clock)
    table.started(todo[0], progress)
    assert "elapsed 0:00" in drawn(table)
    assert "left about 0:20" in drawn(table)
    clock.now_s = 5.0
    assert "elapsed 0:05" in drawn(table)
    assert "left about 0:15" in drawn(table)
    clock.now_s = 500.0
    assert "nearly done" in drawn(table)
    assert f"{len(progress.results)} of {len(progress.results) + 2} runs" in drawn(table)


def test_while_training_the_epoch_and_its_metric_are_shown(tmp_path):
    study = Study(Workload("script", "t.py"), name="s", workers=(1,))
    study = replace(study, goal=Goal(metric="val_accuracy", epochs=12))
    plan = plan_study(study)
    trial = plan.trials[0]
    folder = StudyFolder(tmp_path)
    folder.trial(trial.id).mkdir(parents=True)
    table = LiveTable(study, folder=folder, clock=Watch())
    table.started(trial, progress_of(plan, (), study, left_out=frozenset()))
    assert "starting" in drawn(table)
    lines = [
        {"record": "mark", "name": "val_accuracy", "value": v, "k": 1, "end_s": 1.0} for v in (0.5, 0.625)
    ]
    (folder.trial(trial.id) / "worker-0.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    table.stepped(trial, (Heartbeat(0, 40, 1, 1),))
    assert "epoch 2 of 12, val_accuracy 0.625" in drawn(table)


def test_marks_are_read_on_from_where_the_last_look_ended_even_inside_a_line(tmp_path):
    file, marks = tmp_path / "worker-0.jsonl", Marks(tmp_path, None)
    marks.look()
    assert marks.value is None
    line = json.dumps({"record": "mark", "name": "val_loss", "value": 2.5, "k": 1, "end_s": 1.0}) + "\n"
    file.write_text(line + line[:20])
    marks.look()
    assert (marks.count, marks.value, marks.name) == (1, 2.5, "val_loss")
    with file.open("a") as more:
        more.write(line[20:] + '{"record": "mark", "name": "other", "value": 9}\n')
    marks.look()
    assert (marks.count, marks.value) == (2, 2.5)
