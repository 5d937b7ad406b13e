"""docs/reference/files.md and what a real training leaves behind say the same, field by field, in both directions."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path

import pytest

from paceline.plan.trials import plan_study
from paceline.records import Goal, Study, Workload
from paceline.run.trial import run_trial
from paceline.store.paths import StudyFolder
from paceline.store.trial_files import commit
from tests.support.trial import SCRIPTS, bench
from tests.support.warm import WarmLauncher

TEXT = (Path(__file__).parents[2] / "docs" / "reference" / "files.md").read_text(encoding="utf-8")
STUDIED = Workload("script", str(SCRIPTS / "plain_ddp.py"), ("--compute", "0.02"))
TRAINED = Workload("script", str(SCRIPTS / "known_noise.py"), ())
ASKED = {"workers": (2,), "repeats": 1, "steps": 10, "warmup": 4, "threads": 1, "timeout_s": 120.0}


def fields_of(heading: str) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """The table under a heading: per first cell all its fields, and those that only some trials write."""
    table = TEXT.split(heading, 1)[1].split("|\n\n", 1)[0]
    found, some = defaultdict(set), defaultdict(set)
    owner = ""
    for first, fields, meaning in re.findall(r"^\| (.*?) ?\| (`[^|]+`) \| (.*)$", table, re.MULTILINE):
        owner = first.strip("`") or owner
        names = set(fields.strip("`").split(", "))
        found[owner] |= names
        if meaning.startswith("where"):
            some[owner] |= names
    return found, some


@pytest.fixture(scope="module")
def trials(tmp_path_factory):
    """The folders of a studied training and of one that trains to its end."""
    folders = []
    for workload, goal in ((STUDIED, None), (TRAINED, Goal(metric=r"val_acc=([0-9.]+)"))):
        folder = StudyFolder(tmp_path_factory.mktemp("files"))
        study = Study(workload, goal=goal, **ASKED)
        (trial,) = plan_study(study).trials
        result = run_trial(folder, study, trial, bench=bench(WarmLauncher()), stepped=lambda beats: None)
        assert result.state == "ok", result.reason
        commit(folder, result, started="2026-11-18T00:00:00")
        folders.append(folder.trial(trial.id))
    return folders


def lines_of(trials, pattern):
    """Per kind of record the fields of each line."""
    found = defaultdict(list)
    for path in (path for trial in trials for path in trial.glob(pattern)):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.strip():
                record = json.loads(line)
                found[record.pop("record")].append(set(record))
    return found


def test_the_lines_of_a_training_are_those_of_the_docs(trials):
    said, some = fields_of("### `worker-R.jsonl`")
    seen = lines_of(trials, "worker-*.jsonl")
    assert set(seen) == set(said)
    for record, lines in seen.items():
        for fields in lines:
            assert fields - some[record] == said[record] - some[record] or fields == said[record]
            assert fields <= said[record]


def test_a_manifest_has_the_fields_of_the_docs(trials):
    said, _ = fields_of("### `manifest-R.json`")
    for trial in trials:
        for path in trial.glob("manifest-*.json"):
            manifest = json.loads(path.read_text(encoding="utf-8"))
            assert set(manifest) == said["the file"]
            parts = {
                name: set(manifest[name]) for name in set(said) - {"the file"} if manifest[name] is not None
            }
            assert parts == {name: said[name] for name in parts}
            if trial == trials[0]:
                assert set(parts) == set(said) - {"the file"}


def test_a_commit_mark_has_the_fields_of_the_docs(trials):
    (row,) = re.findall(r"^\| `trials/<id>/trial\.json` \| [^`]*`([^`]+)`", TEXT, re.MULTILINE)
    for trial in trials:
        assert set(json.loads((trial / "trial.json").read_text(encoding="utf-8"))) == set(row.split(", "))


def test_every_file_of_a_trial_is_in_the_docs(trials):
    for path in (path for trial in trials for path in trial.iterdir()):
        name = re.sub(r"-\d+", "-R", path.name)
        assert any(f"{before}{name}" in TEXT for before in ("`", "trials/<id>/")) or (
            name.replace("-R", "-N") in TEXT
        ), path.name
