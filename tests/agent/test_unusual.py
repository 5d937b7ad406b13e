"""Trainings that are unusual in what they send, or when, are split like any other; what cannot be seen is unknown."""

from __future__ import annotations

from itertools import pairwise

import pytest

from paceline.measure.split import split
from tests.support.trial import measured, warm_parts
from tests.support.warm import WarmLauncher

pytestmark = pytest.mark.alone

LATE_S = 0.04
FORWARDS = {  # in a step: worker 1 is late in each of them
    "two_groups": 1,
    "barriers": 1,
    "objects": 1,
    "scattered": 1,
    "served": 1,
    "regrouped": 1,
    "experts": 1,
    "experts_by_hand": 1,
    "sharpness": 2,
    "closures": 2,
    "outer_steps": 4,
}
NAMES = {"experts": "ep", "experts_by_hand": "ep", "sharpness": "ddp", "closures": "ddp"}
UNSEEN = {
    "side_thread": "other thread",
    "polled": "never waited for",
    "waits_in_the_next_step": "strange wait",
}
QUICK = ("served", "regrouped", "experts", "experts_by_hand", "polled")


def some(names):
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in names]


@pytest.mark.parametrize("kind", some(FORWARDS))
def test_a_late_worker_is_waited_for_and_named_and_each_worker_has_a_batch_of_its_own(tmp_path, kind):
    quiet = warm_parts(tmp_path / "quiet", "unusual.py", kind)
    late = warm_parts(tmp_path / "late", "unusual.py", kind, "--late", str(LATE_S))
    assert late.straggle_s - quiet.straggle_s == pytest.approx(FORWARDS[kind] * LATE_S, rel=0.1)
    assert late.bubble_s == 0.0
    assert late.slowest_worker == 1
    assert late.strategy == NAMES.get(kind, "hand-written")
    assert late.replicas == 2


@pytest.mark.parametrize("kind", some(UNSEEN))
def test_a_wait_that_cannot_be_seen_makes_the_parts_unknown(tmp_path, kind):
    parts = warm_parts(tmp_path, "unusual.py", kind, "--late", str(LATE_S))
    assert parts.compute_s is parts.wire_s is parts.straggle_s is parts.slowest_worker is None
    assert UNSEEN[kind] in dict(parts.unseen)


def test_a_step_in_which_a_group_is_made_has_no_parts(tmp_path):
    """Its members wait for one another at a store, where nobody looks: neither computing nor a communication."""
    asked = {"steps": 12, "warmup": 6, "launcher": WarmLauncher()}
    result, _ = measured(tmp_path, "unusual.py", "regrouped", "--late", str(LATE_S), **asked)
    made = [s.k for s in result.workers[0].samples if "group made" in dict(s.unseen)]
    assert made
    assert {later - earlier for earlier, later in pairwise(made)} == {5}
    assert split(result, warmup=6, steps=12).compute_s is not None


@pytest.mark.parametrize("kind", [pytest.param("sharpness", marks=pytest.mark.slow), "closures"])
def test_gradients_that_are_dropped_between_backwards_are_noted(tmp_path, kind):
    asked = {"steps": 12, "warmup": 6, "launcher": WarmLauncher()}
    result, _ = measured(tmp_path, "unusual.py", kind, **asked)
    assert all(worker.manifest["gradients_dropped"] for worker in result.workers)
