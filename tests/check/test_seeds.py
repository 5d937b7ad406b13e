"""Trainings that were not told their seed are not several."""

from paceline.check.seeds import seed_findings
from paceline.records import AccuracyCurve


def curve(seed, *metric, point="w1"):
    epochs = tuple(range(1, len(metric) + 1))
    return AccuracyCurve(point, f"{point}-{seed}", seed, "ok", epochs, epochs, metric)


def test_the_same_curve_twice_is_one_seed():
    found = list(seed_findings([curve(1, 0.5, 0.6), curve(2, 0.5, 0.6)]))
    assert [f.id for f in found] == ["seeds-alike"]
    assert (found[0].point, found[0].message[:32]) == ("w1", "2 trainings gave the same curve ")


def test_one_that_ended_earlier_is_compared_as_far_as_it_went():
    assert list(seed_findings([curve(1, 0.5, 0.6, 0.7), curve(2, 0.5, 0.6)]))


def test_curves_that_differ_are_several_seeds():
    assert not list(seed_findings([curve(1, 0.5, 0.6), curve(2, 0.5, 0.61)]))


def test_curves_that_are_perfect_at_once_tell_nothing():
    assert not list(seed_findings([curve(1, 1.0, 1.0), curve(2, 1.0, 1.0)]))


def test_configurations_are_looked_at_apart():
    assert not list(seed_findings([curve(1, 0.5, 0.6), curve(1, 0.5, 0.6, point="w2")]))


def test_no_curves_no_finding():
    assert not list(seed_findings([]))
