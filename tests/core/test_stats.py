"""Laws of medians, intervals and steady state."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.core.stats import (
    deviation,
    estimate,
    estimate_signed,
    half_width_ratio,
    log_spread,
    lower_median,
    mad,
    ratio,
    scaled,
    steady_start,
    t_quantile,
    welch_degrees,
)

positive = st.floats(min_value=1e-6, max_value=1e6)


@given(st.floats(1e-6, 1e3), st.integers(2, 50))
def test_two_like_groups_have_the_degrees_of_both_and_one_that_does_not_vary_adds_none(variance, n):
    assert welch_degrees((variance, variance), (n, n)) == pytest.approx(2 * (n - 1))
    assert welch_degrees((variance, 0.0), (n, n)) == pytest.approx(n - 1)


def test_a_deviation_is_that_of_a_normal_sample_and_one_pause_in_twenty_does_not_count():
    values = [random.Random(seed).gauss(10.0, 2.0) for seed in range(400)]
    assert deviation(values) == pytest.approx(2.0, rel=0.1)
    assert deviation([*values, *[100.0] * 20]) == pytest.approx(2.0, rel=0.2)
    assert deviation([1.0, 2.0, 3.0, 4.0]) is None


@pytest.mark.parametrize("count", [5, 6, 8, 13, 40])
def test_few_values_tell_the_deviation_as_many_do(count):
    draw = random.Random(count)
    found = [deviation([draw.gauss(10.0, 2.0) for _ in range(count)]) for _ in range(2000)]
    assert statistics.fmean(found) == pytest.approx(2.0, rel=0.03)


@given(st.lists(st.floats(0.1, 1e3), min_size=5, max_size=40), st.floats(0.1, 10.0), st.floats(-100.0, 100.0))
def test_a_deviation_scales_and_does_not_shift(values, factor, shift):
    found = deviation([factor * value + shift for value in values])
    assert found == pytest.approx(factor * deviation(values), rel=1e-6, abs=1e-6)


def test_the_t_factor_is_the_published_one():
    assert t_quantile(1) == pytest.approx(6.314, abs=1e-3)
    assert t_quantile(4) == pytest.approx(2.132, abs=1e-3)


def test_no_launch_gives_no_estimate_and_one_launch_no_interval():
    assert estimate([]) is None
    assert estimate_signed([]) is None
    one = estimate([3.0])
    assert (one.value, one.low, one.high, one.n) == (3.0, None, None, 1)


def test_two_equal_launches_give_a_point():
    two = estimate([2.0, 2.0])
    assert two.low == pytest.approx(2.0)
    assert two.high == pytest.approx(2.0)


@given(st.lists(positive, min_size=2, max_size=12))
def test_an_interval_holds_its_value_and_is_positive(launches):
    result = estimate(launches)
    assert 0 < result.low <= result.value <= result.high
    assert result.value == statistics.median(launches)


@given(st.lists(positive, min_size=2, max_size=8), st.floats(min_value=1e-3, max_value=1e3))
def test_a_unit_changes_nothing(launches, factor):
    there = scaled(estimate(launches), factor)
    here = estimate([x * factor for x in launches])
    assert there.low == pytest.approx(here.low, rel=1e-9)
    assert there.high == pytest.approx(here.high, rel=1e-9)


def test_intervals_cover_at_their_stated_rate():
    """Log-normal launches, as they are: 90 % of intervals over five launches hold the true median."""
    source = random.Random(1)
    held = 0
    for _ in range(2000):
        launches = [math.exp(source.gauss(math.log(0.05), 0.07)) for _ in range(5)]
        result = estimate(launches)
        held += result.low <= 0.05 <= result.high
    assert 0.88 <= held / 2000 <= 0.93


def test_a_ratio_covers_at_its_stated_rate():
    source = random.Random(2)
    held = 0
    for _ in range(2000):
        top = [math.exp(source.gauss(math.log(1.6), 0.05)) for _ in range(4)]
        bottom = [math.exp(source.gauss(0.0, 0.02)) for _ in range(4)]
        result = ratio(top, bottom)
        held += result.low <= 1.6 <= result.high
    assert 0.88 <= held / 2000 <= 0.95


def test_a_ratio_of_nothing_or_of_zero_is_unknown():
    assert ratio([], [1.0]) is None
    assert ratio([0.0], [1.0]) is None
    assert ratio([2.0], [1.0]).low is None


def test_a_signed_quantity_may_be_zero():
    result = estimate_signed([0.0, 0.0, 0.0])
    assert (result.low, result.value, result.high) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(("values", "middle"), [([5.0], 5.0), ([1.0, 9.0], 1.0), ([9.0, 1.0, 4.0], 4.0)])
def test_of_two_middle_values_the_smaller_is_taken(values, middle):
    assert lower_median(values) == middle


def test_a_robust_deviation_does_not_see_one_outlier():
    assert mad([1.0, 2.0, 3.0, 4.0, 5.0]) == mad([1.0, 2.0, 3.0, 4.0, 500.0]) == pytest.approx(1.4826)


def test_spread_over_launches_needs_two():
    assert log_spread([1.0]) is None
    assert log_spread([1.0, math.e]) == pytest.approx(math.sqrt(0.5))


def test_half_width_needs_an_interval():
    assert half_width_ratio(estimate([1.0])) is None
    assert half_width_ratio(estimate([1.0, 1.0])) == pytest.approx(0.0)


def test_a_slow_beginning_is_left_out():
    assert steady_start([9.0, 5.0, 3.0, *[1.0, 1.01, 0.99] * 8], at_least=0) in (1, 2, 3)


def test_a_steady_series_is_steady_from_the_start():
    assert steady_start([1.0, 1.01, 0.99] * 8, at_least=0) == 0
    assert steady_start([1.0, 1.01, 0.99] * 8, at_least=4) == 4


def test_a_series_that_never_settles_starts_half_way():
    assert steady_start([float(2**-k) for k in range(20)], at_least=0) >= 5


def test_too_short_a_series_is_taken_as_it_is():
    assert steady_start([1.0, 2.0], at_least=0) == 0
    assert steady_start([], at_least=3) == 0
