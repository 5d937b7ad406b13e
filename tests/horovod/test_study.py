"""A script that imports horovod is studied unchanged, where no Horovod is installed."""

import importlib.util
from dataclasses import replace

import pytest

from paceline.check.study import study_findings
from paceline.cli.text.train import training_text
from paceline.converge.summary import training_summary
from paceline.measure.profiles import curve, launches
from paceline.records import WorkerRecord
from tests.support.trial import measured
from tests.support.warm import WarmLauncher

LINEAR_64 = 4 * (64 * 64 + 64)


def test_an_old_script_is_measured_unchanged_and_the_study_says_whose_horovod_it_was(tmp_path):
    result, split = measured(tmp_path, "horovod_train.py")
    assert split.exchanged_bytes_per_step == LINEAR_64
    assert split.wire_s is not None
    assert split.wire_s > 0
    assert split.per_worker_batch == 16
    assert all(worker.manifest["horovod"] is True for worker in result.workers)
    sums = {worker.manifest["weights_checksum"] for worker in result.workers}
    assert len(sums) == 1
    assert (tmp_path / "study" / "trials" / result.trial.id / "agent" / "paceline_horovod").is_dir()
    groups = launches([result.trial.point], [result], warmup=6, steps=20)
    findings = {finding.id: finding.level for finding in study_findings(groups, curve(groups))}
    assert findings["horovod-provided"] == "note"


@pytest.mark.skipif(importlib.util.find_spec("keras") is None, reason="Keras is not installed")
def test_the_steps_of_keras_are_seen_though_torch_has_no_part_in_its_optimizer(tmp_path, monkeypatch):
    monkeypatch.delenv("KERAS_BACKEND", raising=False)  # the script says nothing about it
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))  # nor does this user
    result, split = measured(tmp_path, "horovod_keras_train.py", launcher=WarmLauncher())
    assert split.exchanged_bytes_per_step == LINEAR_64
    assert split.per_worker_batch == 16
    assert split.wire_s is not None
    assert split.optimizer_s > 0
    first = result.workers[0].manifest
    assert first["optimizer"] == {"name": "SGD", "lr": pytest.approx(0.02)} | first["optimizer"]
    assert first["optimizer"]["momentum"] == pytest.approx(0.9)
    assert first["parameters"] == 64 * 64 + 64
    assert len({worker.manifest["weights_checksum"] for worker in result.workers}) == 1


def test_a_training_that_horovod_was_provided_for_says_so(tmp_path):
    worker = WorkerRecord(0, 1, (), {"horovod": True})
    plain = WorkerRecord(0, 1, (), {"horovod": False})
    asked = {"metric": None, "rises": True, "target": None, "global_batch": None}
    said = [
        training_text(
            replace(training_summary([], [w], **asked), step_s=0.1), [], summary={}, folder=tmp_path
        )
        for w in (worker, plain)
    ]
    assert ["paceline_horovod answered it" in text for text in said] == [True, False]
