"""A study recorded once loads for ever, and can be replayed without a device."""

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from paceline.analysis.study import study_analysis
from paceline.decide.sentence import verdict_text
from paceline.launch.replay import ReplayLauncher
from paceline.plan.trials import plan_study
from paceline.run.clock import SystemClock
from paceline.run.study import Silent, run_study
from paceline.run.trial import Bench
from paceline.store.paths import StudyFolder
from paceline.store.study_file import read_study
from paceline.store.trial_files import read_results
from tests.support.desk import desk

RECORDED = sorted(path for path in (Path(__file__).parents[1] / "recorded").iterdir() if path.is_dir())


@pytest.mark.parametrize("root", RECORDED, ids=lambda root: root.name)
def test_every_recorded_study_loads(root, tmp_path):
    shutil.copytree(root, tmp_path / "s")
    done = desk("show", "s", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    points = json.loads(done.stdout)["points"]
    assert [point["state"] for point in points] == ["ok"] * len(points)
    assert all(point["step_s"]["n"] >= 3 for point in points)


class JumpingClock(SystemClock):
    """A day back or a year ahead whenever the date is asked for, as a machine without a battery has it."""

    def date(self):
        days = (-1, 365, -300, 0)[len(jumps) % 4]
        jumps.append(days)
        return (datetime.now(UTC) + timedelta(days=days)).isoformat(timespec="microseconds")


jumps = []


def replayed(tmp_path, clock):
    """The recorded study, run again without a device: as it was read before, and now."""
    root = RECORDED[0]
    study = replace(read_study(root / "study.toml"), directory=str(tmp_path))
    (tmp_path / "some_agent").mkdir()
    bench = Bench(ReplayLauncher(root), "python", 1, tmp_path / "some_agent", None, clock)
    folder = StudyFolder(tmp_path / "replayed")
    run_study(folder, study, plan_study(study), bench=bench, listener=Silent())
    before = study_analysis(study, read_results(StudyFolder(root)), {})
    return before, study_analysis(study, read_results(folder), {})


def test_a_replayed_study_says_what_the_recorded_one_said(tmp_path):
    before, after = replayed(tmp_path, SystemClock())
    assert [point.step_s for point in after.points] == [point.step_s for point in before.points]
    assert after.verdict == before.verdict


def test_a_clock_that_jumps_changes_no_figure(tmp_path):
    before, after = replayed(tmp_path, JumpingClock())
    assert len(jumps) == sum(point.trials for point in after.points)
    for then, now in zip(before.points, after.points, strict=True):
        assert [now.step_s.value, now.step_s.low, now.step_s.high] == pytest.approx(
            [then.step_s.value, then.step_s.low, then.step_s.high], rel=1e-9
        )
    assert verdict_text(after.verdict) == verdict_text(before.verdict)
