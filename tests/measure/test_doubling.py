"""One gain for one doubling: the sentence, the thresholds and the advice cannot contradict one another."""

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.analysis.study import study_analysis
from paceline.core.stats import estimate, ratio, ratio_of
from paceline.decide.sentence import verdict_text
from paceline.decide.verdict import verdict
from paceline.measure.doubling import doublings, worthwhile
from paceline.measure.series import headline_series
from paceline.plan.trials import plan_study
from paceline.records import Estimate, Point, Profile, Study, Workload
from tests.support.samples import WARMUP, steady

_MNIST = Workload("workload", "mnist", batch_flag="--batch-size")


def profile(workers, speedup, *, sd=0.0, n=3, batch=32, scaling="weak", rate=None):
    """A Profile whose launches differ so much; its throughput is its speed-up."""
    each = [speedup * (1 + sd * (i - (n - 1) / 2)) * (rate or 1.0) for i in range(n)]
    return Profile(
        Point(
            f"w{workers}-{batch}",
            workers,
            per_worker_batch=batch,
            global_batch=batch * workers,
            scaling=scaling,
        ),
        "ok",
        None,
        step_s=Estimate(1.0, n=n),
        throughput_per_s=estimate(each),
        speedup=Estimate(speedup, n=n),
        efficiency_ratio=Estimate(speedup / workers, n=n),
    )


def test_a_ratio_of_estimates_is_the_ratio_of_their_launches():
    tops, bottoms = [3.0, 3.1, 3.3, 3.2], [1.0, 1.1, 1.05]
    ours, theirs = ratio_of(estimate(tops), estimate(bottoms)), ratio(tops, bottoms)
    assert [ours.value, ours.low, ours.high] == pytest.approx([theirs.value, theirs.low, theirs.high])
    assert ours.n == theirs.n == 3


def test_one_launch_alone_has_no_interval_to_give():
    assert ratio_of(estimate([3.0]), estimate([1.0, 1.1])).low is None


def test_the_gain_from_two_to_four_owes_nothing_to_the_luck_of_one():
    (first, second) = doublings([profile(1, 1.0, sd=0.3), profile(2, 1.8), profile(4, 3.2)])
    assert first.gain.low < 1.5 < 2.0 < first.gain.high
    assert second.gain.low == second.gain.high == pytest.approx(3.2 / 1.8)


def test_a_larger_count_is_undecided_and_the_smaller_one_stands():
    found = worthwhile([profile(1, 1.0), profile(2, 1.9, sd=0.01), profile(4, 2.9, sd=0.04)])
    assert found.best.point.workers == 2
    assert found.undecided
    assert found.following.after.point.workers == 4


def test_the_same_count_on_other_nodes_is_no_doubling():
    assert doublings([profile(2, 1.0), profile(2, 0.9)]) == ()


@pytest.mark.parametrize("counts", [(127, 128), (100, 101), (1000, 1001), (3, 4)])
def test_close_counts_do_not_say_what_a_doubling_gains(counts):
    few, more = (profile(n, n**0.9, sd=0.02) for n in counts)
    assert doublings([few, more]) == ()
    found = verdict([few, more], ())
    assert (found.answer, [reason.id for reason in found.reasons]) == ("no_answer", ["close-counts"])
    assert f"{counts[0]} and {counts[1]} workers are too close" in verdict_text(found)


def test_a_count_is_held_against_the_largest_that_is_half_as_large_again():
    found = doublings([profile(n, float(n)) for n in (2, 3, 4, 6, 7)])
    pairs = [(step.before.point.workers, step.after.point.workers) for step in found]
    assert pairs == [(2, 3), (2, 4), (4, 6), (4, 7)]
    assert [step.gain.value for step in found] == pytest.approx([2.0] * 4)


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=9, unique=True).map(sorted), st.floats(0.01, 100))
def test_no_gain_per_doubling_is_larger_than_what_was_seen_to_the_power_that_a_factor_of_one_and_a_half_asks(
    counts, each
):
    curve = [profile(n, each if i % 2 else 1.0) for i, n in enumerate(counts)]
    most = max(each, 1 / each) ** (1 / math.log2(1.5))
    assert all(step.gain.value <= most * 1.0001 for step in doublings(curve))


def test_what_is_told_is_sound_then_long_then_fast():
    short = [profile(1, 1.0, batch=64, rate=9.0), profile(2, 1.9, batch=64, rate=9.0)]
    long = [profile(1, 1.0), profile(2, 1.9), profile(4, 3.5)]
    fast = [
        profile(1, 1.0, batch=16, rate=2.0),
        profile(2, 1.9, batch=16, rate=2.0),
        profile(4, 3.5, batch=16, rate=2.0),
    ]
    unsound = [profile(n, s, batch=8, rate=5.0) for n, s in ((1, 1.0), (2, 2.6), (4, 5.9))]
    assert list(headline_series([*short, *long]).profiles) == long
    assert list(headline_series([*long, *fast, *unsound]).profiles) == fast
    assert headline_series([]) is None


def _analysis(step_s, *, noise=0.0, launches=3, seed=1, **asked):
    """A study whose step takes `step_s(point)`, launches differing by luck of this size."""
    luck = random.Random(seed)
    study = Study(_MNIST, steps=20, warmup=WARMUP, repeats=launches, **asked)
    results = [
        steady(
            trial.point.workers,
            step_s(trial.point) * luck.lognormvariate(0.0, noise),
            point=trial.point,
            repeat=trial.repeat,
            samples=trial.point.per_worker_batch,
        )
        for trial in plan_study(study).trials
    ]
    return study_analysis(study, results, {})


def _by_goal(analysis):
    return {r.goal: r for r in analysis.recommendations}


@pytest.mark.parametrize("gain", [1.2, 1.47, 1.53, 1.9])
@pytest.mark.parametrize("noise", [0.001, 0.02])
def test_sentence_thresholds_and_advice_say_one_thing(gain, noise):
    for seed in range(2):
        found = _analysis(
            lambda p: 0.1 if p.workers == 1 else 0.2 / gain,
            noise=noise,
            seed=seed,
            workers=(1, 2),
            per_worker_batch=(32,),
        )
        ticked = next(t for t in found.thresholds if t.id == "gain-per-doubling").holds
        opening = {True: "Use 2 workers", False: "Stay with 1 worker", None: "Not decided yet"}[ticked]
        assert verdict_text(found.verdict).startswith(opening)
        assert (_by_goal(found)["knee"].workers >= 2) == (ticked is True)
        assert (found.decision.chosen is None) == (ticked is None)


def test_one_quantity_has_one_interval_everywhere():
    """Step of a point, time of its option, gain of its advice: the same launches, the same relative interval."""
    found = _analysis(
        lambda p: 0.1 * p.workers**0.3, noise=0.03, workers=(1, 2, 4), per_worker_batch=(32,), launches=3
    )
    for point in found.points:
        option = next(o for o in found.decision.options if o.workers == point.point.workers)
        for mine in (option.time_s, option.cost, option.worker_s, option.node_s):
            assert mine.low / mine.value == pytest.approx(point.step_s.low / point.step_s.value)
            assert mine.high / mine.value == pytest.approx(point.step_s.high / point.step_s.value)
    assert found.recommendations
    fastest_measured = [
        r for r in found.recommendations if r.gain and r.condition.startswith("measured") and r.workers > 1
    ]
    for advice in fastest_measured:
        seen = next(p.speedup for p in found.points if p.point.workers == advice.workers)
        assert [advice.gain.value, advice.gain.low, advice.gain.high] == pytest.approx(
            [seen.value, seen.low, seen.high]
        )


def test_advice_is_about_the_batch_of_the_sentence():
    found = _analysis(
        lambda p: 0.02 + 0.001 * p.per_worker_batch, workers=(1, 2), per_worker_batch=(16, 64, 256)
    )
    assert "256 per worker" in verdict_text(found.verdict)
    assert {r.per_worker_batch for r in found.recommendations if r.goal != "next-measurement"} == {256}


def test_advice_is_about_the_backend_of_the_sentence_or_there_is_none():
    """nccl is faster, but one of its batches gains more than its workers allow: gloo's advice is no substitute."""
    speed = {"gloo": 1.0, "nccl": 0.8}
    found = _analysis(
        lambda p: (
            speed[p.backend] * (0.07 if (p.backend, p.workers, p.per_worker_batch) == ("nccl", 2, 8) else 0.1)
        ),
        workers=(1, 2),
        per_worker_batch=(8, 32),
        backends=("gloo", "nccl"),
    )
    assert "32 per worker, nccl" in verdict_text(found.verdict)
    option = next(o for o in found.decision.options if o.workers == 2)
    point = next(p for p in found.points if p.point.id == "w2-b32-nccl")
    assert option.time_s.value == pytest.approx(point.step_s.value * 1e6 / 64)


def test_strong_scaling_gets_advice_and_its_global_batch_stays():
    found = _analysis(
        lambda p: 0.02 + 0.0005 * p.per_worker_batch,
        workers=(1, 2, 4),
        global_batch=(128,),
        scaling=("strong",),
    )
    advice = _by_goal(found)
    assert verdict_text(found.verdict).startswith(f"Use {advice['knee'].workers} workers")
    assert advice["fastest"].workers == 4
    assert advice["fastest"].condition == "measured; the global batch stays 128"


def test_a_count_that_diverged_is_not_what_to_use():
    study = Study(_MNIST, steps=20, warmup=WARMUP, repeats=3, workers=(1, 2, 4), per_worker_batch=(32,))
    results = [
        replace(
            steady(t.point.workers, 0.1, point=t.point, repeat=t.repeat),
            state="diverged" if t.point.workers == 4 else "ok",
        )
        for t in plan_study(study).trials
    ]
    assert verdict_text(study_analysis(study, results, {}).verdict).startswith("Use 2 workers")


def test_what_is_foreseen_to_pay_is_said_beside_what_was_measured():
    found = _analysis(lambda p: 0.1, noise=0.002, workers=(1, 2, 4), per_worker_batch=(32,))
    knee = _by_goal(found)["knee"].workers
    assert knee > 4
    assert verdict_text(found.verdict).startswith("Use 4 workers")
    assert f"{knee} should pay too (predicted, not measured)" in verdict_text(found.verdict)


def test_a_split_that_contradicts_itself_limits_nothing():
    """100 ms of computing alone, 20 ms beside another at the same batch: the device ran behind its host."""
    study = Study(_MNIST, steps=20, warmup=WARMUP, repeats=3, workers=(1, 2), per_worker_batch=(32,))
    results = [
        steady(
            t.point.workers, 0.1, point=t.point, repeat=t.repeat, wait_s=0.08 if t.point.workers == 2 else 0.0
        )
        for t in plan_study(study).trials
    ]
    found = study_analysis(study, results, {})
    assert [reason.id for reason in found.verdict.reasons] == ["split-contradicts"]
    ids = {finding.id for finding in found.findings}
    assert "split-contradicts" in ids
    assert "wire-bound" not in ids
