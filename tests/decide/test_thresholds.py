"""The ✓ and ✗ of a study."""

import json
from dataclasses import replace

import pytest

from paceline.analysis.json_file import analysis_data, analysis_from
from paceline.decide.thresholds import thresholds
from paceline.records import Analysis, Estimate, Failure, Point, Profile
from tests.support.report_sample import told


def profile(workers, speedup, *, step_s=0.1, half=0.001, n=5, overhead_s=1e-5):
    return Profile(
        Point(f"w{workers}", workers, per_worker_batch=32),
        "ok",
        None,
        step_s=Estimate(step_s, *(None, None) if half is None else (step_s - half, step_s + half), n),
        speedup=Estimate(speedup, speedup, speedup, n),
        overhead_s=Estimate(overhead_s, n=n),
    )


def by_id(*profiles):
    found = {}
    for threshold in thresholds(profiles):
        found.setdefault(threshold.id, []).append(threshold)
    return found


def test_the_gain_is_per_doubling_also_when_a_count_is_left_out():
    (gain,) = by_id(profile(1, 1.0, half=0.0), profile(4, 2.25, half=0.0))["gain-per-doubling"]  # 1.5 x 1.5
    assert gain.value == 1.5
    assert gain.holds


@pytest.mark.parametrize(
    ("speedup", "half", "n", "holds"),
    [
        (1.57, 0.012, 3, None),  # ± 12 % at both counts: 1.5x lies inside
        (1.57, 0.001, 3, True),
        (1.43, 0.012, 3, None),
        (1.43, 0.001, 3, False),
        (1.57, None, 1, None),  # one launch: launches differ by more than that
        (1.60, None, 1, None),
        (1.62, None, 1, True),
        (1.40, None, 1, False),
    ],
)
def test_a_gain_is_ticked_or_crossed_only_where_its_whole_interval_is(speedup, half, n, holds):
    (gain,) = by_id(profile(1, 1.0, half=half, n=n), profile(2, speedup, half=half, n=n))["gain-per-doubling"]
    assert gain.value == pytest.approx(speedup)
    assert gain.holds is holds
    assert (holds is None) == ("too noisy" in gain.message or "cannot tell" in gain.message)


def test_each_step_of_the_curve_is_held_against_the_line_apart():
    gains = by_id(profile(1, 1.0), profile(2, 1.9), profile(4, 2.0))["gain-per-doubling"]
    assert [gain.holds for gain in gains] == [True, False]


def test_two_batches_are_named_apart():
    other = [
        replace(p, point=replace(p.point, per_worker_batch=64)) for p in (profile(1, 1.0), profile(2, 1.6))
    ]
    gains = by_id(profile(1, 1.0), profile(2, 1.8), *other)["gain-per-doubling"]
    assert [gain.message.partition(":")[0] for gain in gains] == [
        "32 per worker",
        "64 per worker",
    ]


def test_the_worst_point_decides_about_the_evidence():
    found = by_id(profile(1, 1.0, n=5), profile(2, 1.9, n=2, half=0.02, overhead_s=0.002))
    assert [found[name][0].holds for name in ("interval", "launches", "agent")] == [False, False, False]
    assert [found[name][0].value for name in ("launches", "agent")] == [2.0, 0.002]
    assert "w2" in found["interval"][0].message


def test_a_tenth_of_a_millisecond_is_allowed_however_short_the_step():
    assert by_id(profile(1, 1.0, step_s=0.002, overhead_s=9e-5))["agent"][0].holds
    assert not by_id(profile(1, 1.0, step_s=0.002, overhead_s=11e-5))["agent"][0].holds


def test_nothing_measured_is_held_against_nothing():
    assert thresholds([]) == ()
    assert thresholds([Profile(Point("w2", 2), "oom", "no memory")]) == ()


def test_thresholds_and_failures_survive_the_file():
    failure = Failure("w4-1", 4, "oom", "worker 3 ran out of memory", 12.5, "RuntimeError: …")
    analysis = Analysis(told("v"), (), (), thresholds=thresholds([profile(1, 1.0)]), failures=(failure,))
    assert analysis_from(json.loads(json.dumps(analysis_data(analysis)))) == analysis


def test_a_file_from_before_thresholds_still_loads():
    data = analysis_data(Analysis(told("Nothing."), (), ()))
    del data["thresholds"], data["failures"]
    assert analysis_from(data) == Analysis(told("Nothing."), (), ())
