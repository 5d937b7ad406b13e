"""gloo against NCCL on one training: what is compared, when losses agree, when nothing can be told."""

from dataclasses import replace

import pytest

from paceline.check.backends import backend_findings, loss_difference
from paceline.measure.profiles import Launches
from paceline.plan.trials import points_of
from paceline.records import Estimate, Profile, Sample, Study, Trial, TrialResult, WorkerRecord, Workload

GLOO, NCCL = points_of(Study(Workload("module", "t"), workers=(2,), backends=("gloo", "nccl")))


def launch(point, losses):
    samples = tuple(
        Sample(k, k * 0.1, 0.1, None, 0.0, None, None, None, 1, False, 0.0, loss)
        for k, loss in enumerate(losses, start=2)
    )
    return TrialResult(Trial("t", point, 1, ()), "ok", None, (WorkerRecord(0, 2, samples, {}),), 1.0)


def found(gloo, nccl, *, times=(0.2, 0.1)):
    """The findings of launches with these losses on gloo and on NCCL."""
    groups = [
        Launches(point, tuple(launch(point, losses) for losses in many), ())
        for point, many in ((GLOO, gloo), (NCCL, nccl))
    ]
    profiles = [
        Profile(g.point, "ok", None, step_s=Estimate(t, t * 0.98, t * 1.02, 5), wire_s=Estimate(t / 2))
        for g, t in zip(groups, times, strict=True)
    ]
    return {finding.id: finding for finding in backend_findings(groups, profiles)}


FALLING = [2.0, 1.5, 1.0, 0.5]


def test_a_difference_of_losses_is_relative_to_their_size():
    assert loss_difference(launch(GLOO, FALLING), launch(NCCL, FALLING)) == (0.0, 4)
    moved = [2.0, 1.5, 1.1, 0.5]
    assert loss_difference(launch(GLOO, FALLING), launch(NCCL, moved))[0] == pytest.approx(0.05)
    assert loss_difference(launch(GLOO, FALLING[:2]), launch(NCCL, [None, *FALLING[1:]])) == (0.0, 1)
    assert loss_difference(launch(GLOO, []), launch(NCCL, FALLING)) is None


def test_equal_losses_agree_and_the_times_are_compared():
    seen = found([FALLING], [FALLING])
    assert seen["backends-compared"].value == pytest.approx(2.0)
    assert (
        "200 ms on gloo and 100 ms on nccl, of it network 100 ms and 50.0 ms"
        in seen["backends-compared"].message
    )
    assert seen["losses-agree"].value == 0.0


def test_other_digits_agree_and_another_training_does_not():
    assert "losses-agree" in found([FALLING], [[loss * 1.001 for loss in FALLING]])
    worse = found([FALLING, FALLING], [[2.0, 1.9, 1.8, 1.7]])
    assert worse["losses-differ"].level == "doubt"
    assert worse["losses-differ"].value == pytest.approx(0.6)


def test_a_script_that_differs_from_itself_is_not_held_against_a_backend():
    assert set(found([FALLING, [2.0, 1.8, 1.6, 1.4]], [[2.0, 1.9, 1.8, 1.7]])) == {
        "backends-compared",
        "losses-not-comparable",
    }


def test_intervals_that_overlap_show_no_difference():
    assert (
        "no difference is shown"
        in found([FALLING], [FALLING], times=(0.100, 0.101))["backends-compared"].message
    )


def test_only_the_same_setting_is_compared():
    other = replace(NCCL, workers=4)
    groups = [Launches(GLOO, (), ()), Launches(other, (), ())]
    profiles = [Profile(g.point, "ok", None, step_s=Estimate(0.1)) for g in groups]
    assert list(backend_findings(groups, profiles)) == []
