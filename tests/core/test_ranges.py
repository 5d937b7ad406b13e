"""Intervals in words: no finer than they are wide, the value itself where there is none."""

import pytest

from paceline.core.units import counts_text, duration_range_text, estimate_text, percent_text, range_text
from paceline.records import Estimate


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (41.2, 34.9, 48.6, "41 (35-49)"),
        (7.1, 6.01, 8.4, "7.1 (6.0-8.4)"),
        (1.03, 0.82, 5.97, "1.0 (0.8-6.0)"),
        (1.416, 1.367, 1.433, "1.42 (1.37-1.43)"),
        (1234.0, 1100.0, 1400.0, "1234 (1100-1400)"),
        (2.0, 2.0, 2.0, "2.00"),
        (2.0, None, None, "2.00"),
    ],
)
def test_a_range_is_no_finer_than_it_is_wide(value, low, high, text):
    assert range_text(Estimate(value, low, high)) == text


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (0.0393, 0.030, 0.049, "39 ms (30-49 ms)"),
        (21.2, 17.7, 25.4, "21 s (18-25 s)"),
        (472.0, 160.0, 580.0, "8 min (3-10 min)"),
        (7200.0, 5400.0, 9000.0, "2.0 h (1.5-2.5 h)"),
        (4e-5, 3e-5, 6e-5, "40 µs (30-60 µs)"),
        (319.0, None, None, "5 min 19 s"),
    ],
)
def test_a_duration_and_its_interval_share_one_unit(value, low, high, text):
    assert duration_range_text(Estimate(value, low, high)) == text


def test_a_baseline_is_a_hundred_percent_without_an_interval():
    assert percent_text(Estimate(1.0, 1.0, 1.0, 3)) == "100%"


def test_counts_are_listed_once_in_order():
    assert counts_text([16, 8, 16]) == "8 and 16"
    assert counts_text([4]) == "4"
    assert counts_text([1, 2, 4]) == "1, 2 and 4"


def test_ends_that_rounding_alone_keeps_apart_are_one_number():
    assert estimate_text(Estimate(7.0, 7.0 - 1e-12, 7.0 + 1e-12, 3)) == "7.00"
