"""Settings that are left out because they do not fit: only where that is sure, and never where nothing was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.analysis.memory import unfit
from paceline.plan.trials import points_of
from paceline.records import Study, Workload
from tests.predict.test_memory import used
from tests.support.samples import steady

MB = 10**6
STUDY = Study(
    Workload("script", "train.py"),
    workers=(1,),
    per_worker_batch=(8, 64),
    scaling=("weak",),
    steps=10,
    warmup=4,
)


def measured(study, *, batch=8, **memory):
    """A run of the smallest batch: weights and Adam's state are 3 MB, each sample takes 10 kB."""
    at = {point.per_worker_batch: point for point in points_of(study)}
    use = used(batch, **memory).use
    run = steady(1, 0.01, point=at[batch], samples=batch)
    return at, [replace(run, workers=tuple(replace(worker, memory=use) for worker in run.workers))]


def why(limit_bytes, **more):
    study = replace(STUDY, memory_limit_bytes=limit_bytes, **more)
    at, results = measured(study)
    return unfit(study, at[64], results)


def test_what_surely_does_not_fit_is_left_out_and_says_what_it_needs():
    said = why(3 * MB)
    assert said is not None
    assert "needed, 3.00 MB there (predicted from w1-b8)" in said


@pytest.mark.parametrize("limit", [5 * MB, 4 * MB, None])
def test_what_fits_may_fit_or_has_no_limit_is_run(limit):
    assert why(limit) is None


def test_the_user_may_insist():
    assert why(3 * MB, try_anyway=True) is None


def test_nothing_is_left_out_before_anything_was_measured_or_where_memory_was_not_seen():
    study = replace(STUDY, memory_limit_bytes=3 * MB)
    at, results = measured(study)
    assert unfit(study, at[64], []) is None
    blind = [replace(one, workers=tuple(replace(w, memory=None) for w in one.workers)) for one in results]
    assert unfit(study, at[64], blind) is None


def test_a_setting_that_has_run_is_not_judged_again():
    study = replace(STUDY, memory_limit_bytes=3 * MB)
    at, results = measured(study)
    assert unfit(study, at[8], results) is None
