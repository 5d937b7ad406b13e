"""Differences between two studies."""

import pytest

from paceline.analysis.compare import differences, ratio_of
from paceline.core.stats import estimate, ratio
from paceline.records import Analysis, Estimate, Point, Profile
from tests.support.report_sample import told


def analysis(step_s, workers=2, efficiency=None):
    point = Point(f"w{workers}", workers)
    return Analysis(told("v"), (Profile(point, "ok", None, step_s=step_s, efficiency_ratio=efficiency),), ())


def test_a_study_does_not_differ_from_itself():
    one = analysis(estimate([0.1, 0.11, 0.12]))
    assert [d.shown for d in differences(one, one)] == [False]


def test_a_difference_beyond_both_intervals_is_shown():
    a, b = analysis(estimate([0.100, 0.101, 0.102])), analysis(estimate([0.150, 0.151, 0.152]))
    (found,) = differences(a, b)
    assert found.shown
    assert found.ratio.value == pytest.approx(1.5, rel=0.02)


def test_one_launch_cannot_show_a_difference():
    (found,) = differences(analysis(Estimate(0.1)), analysis(Estimate(0.9)))
    assert found.shown is None


def test_points_that_only_one_study_has_are_left_out():
    assert differences(analysis(Estimate(0.1), workers=1), analysis(Estimate(0.1), workers=2)) == ()


def test_the_interval_from_estimates_is_that_of_the_launches_themselves():
    a, b = [1.0, 1.1, 1.25, 1.3], [2.0, 2.1, 2.05]
    from_launches, from_estimates = ratio(b, a), ratio_of(estimate(b), estimate(a))
    width = from_launches.high / from_launches.low
    assert from_estimates.high / from_estimates.low == pytest.approx(width, rel=1e-6)


def test_studies_on_different_backends_are_compared_and_a_study_of_both_keeps_them_apart():
    def on(*backends):
        points = [Point(f"w2-{backend}", 2, backend=backend) for backend in backends]
        profiles = tuple(Profile(point, "ok", None, step_s=Estimate(0.1)) for point in points)
        return Analysis(told("v"), profiles, ())

    assert [d.point for d in differences(on("gloo"), on("nccl"))] == ["w2-gloo"]
    assert [d.point for d in differences(on(None), on("gloo"))] == ["w2-None"]
    assert [d.point for d in differences(on("gloo", "nccl"), on("nccl"))] == ["w2-nccl"]
