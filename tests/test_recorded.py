"""A study recorded once loads for ever, and can be replayed without a device."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from paceline.analyze import study_analysis
from paceline.launch.replay import ReplayLauncher
from paceline.run.clock import SystemClock
from paceline.run.study import Silent, run_study
from paceline.run.trial import Bench
from paceline.store.paths import StudyFolder
from paceline.store.study_file import read_study
from paceline.store.trial_files import read_results
from tests.desk import desk

RECORDED = sorted(path for path in (Path(__file__).parent / "recorded").iterdir() if path.is_dir())


@pytest.mark.parametrize("root", RECORDED, ids=lambda root: root.name)
def test_every_recorded_study_loads(root, tmp_path):
    shutil.copytree(root, tmp_path / "s")
    done = desk("show", "s", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    points = json.loads(done.stdout)["points"]
    assert [point["state"] for point in points] == ["ok"] * len(points)
    assert all(point["step_s"]["n"] >= 3 for point in points)


def test_a_replayed_study_says_what_the_recorded_one_said(tmp_path):
    root = RECORDED[0]
    study = replace(read_study(root / "study.toml"), directory=str(tmp_path))
    (tmp_path / "some_agent").mkdir()
    bench = Bench(ReplayLauncher(root), "python", 1, tmp_path / "some_agent", None, SystemClock())
    folder = StudyFolder(tmp_path / "replayed")
    run_study(folder, study, bench=bench, listener=Silent())
    before = study_analysis(study, read_results(StudyFolder(root)), {})
    after = study_analysis(study, read_results(folder), {})
    assert [point.step_s for point in after.points] == [point.step_s for point in before.points]
    assert after.verdict == before.verdict
