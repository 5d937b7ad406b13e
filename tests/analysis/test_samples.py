"""A study knows the size of its data set from the loaders, so that its advice is about epochs."""

from dataclasses import replace
from pathlib import Path

import pytest

from paceline.analysis.question import Ask
from paceline.analysis.study import study_analysis, with_measured_samples
from paceline.decide.options import planned
from paceline.records import Finding
from paceline.store.paths import StudyFolder
from paceline.store.study_file import read_study
from paceline.store.trial_files import read_results

MNIST = StudyFolder(Path(__file__).parents[1] / "recorded" / "mnist-1-2")


@pytest.fixture(scope="module")
def results():
    return read_results(MNIST)


def changed(results, loader, *, only=lambda worker: True):
    """The results with another loader, as a manifest gives it."""
    return [
        replace(
            result,
            workers=tuple(
                replace(w, manifest={**w.manifest, "loader": loader}) if only(w) else w
                for w in result.workers
            ),
        )
        for result in results
    ]


def test_the_size_that_all_workers_saw_is_the_data_sets(results):
    loader = {"dataset_size": 7000, "sampler": "DistributedSampler"}
    assert with_measured_samples(Ask(), changed(results, loader), ()).samples == 7000
    assert with_measured_samples(Ask(samples=5), changed(results, loader), ()).samples == 5


def test_a_share_of_the_data_is_not_taken_for_all_of_it(results):
    loader = {"dataset_size": 7000, "sampler": "RandomSampler"}
    together = [r for r in changed(results, loader) if r.trial.point.workers == 2]
    assert with_measured_samples(Ask(), together, ()).samples is None
    dealt = changed(together, {**loader, "sampler": "DistributedSampler"})
    assert with_measured_samples(Ask(), dealt, ()).samples == 7000
    halves = changed(results, loader, only=lambda worker: worker.world == 2)
    assert with_measured_samples(Ask(), halves, ()).samples is None


def test_workers_that_read_the_same_data_have_no_common_epoch(results):
    same = Finding("same-data", "doubt", "all workers were given the same batches")
    assert with_measured_samples(Ask(), results, [same]).samples is None


def test_advice_of_a_study_is_per_epoch_and_planned_samples_are_so_many_epochs(results):
    study = read_study(MNIST.root / "study.toml")
    loader = {"dataset_size": 6400, "sampler": "DistributedSampler"}
    analysis = study_analysis(study, changed(results, loader), {})
    fastest = next(r for r in analysis.recommendations if r.goal == "fastest")
    assert "per epoch" in fastest.text
    decision = analysis.decision
    assert (decision.work, decision.samples_per_epoch) == ("one epoch", 6400)
    option = decision.options[0]
    step_s = analysis.points[0].step_s.value
    assert option.time_s.value == pytest.approx(step_s * 6400 / option.per_worker_batch, rel=0.01)
    ten = planned(decision, samples=64_000)
    assert ten.work == "64,000 samples"
    assert ten.options[0].time_s.value == pytest.approx(10 * option.time_s.value)
    assert planned(decision, epochs=10).options[0].time_s.value == pytest.approx(10 * option.time_s.value)
