"""Records survive JSON by their annotations alone."""

import json
import math
from dataclasses import dataclass

import pytest

from paceline.core.json_data import plain_data, record_from
from paceline.records import Decision, Estimate, Option


@dataclass(frozen=True)
class Odd:
    """One field of every kind."""

    pair: tuple[int, str]
    known: dict[str, float | None]
    inner: Estimate | None = None
    many: tuple[Estimate, ...] = ()
    flag: bool = False


DECISION = Decision(
    "one epoch",
    "worker-hours",
    True,
    (Option(2, 1, 32, True, Estimate(10.0, 9.0, 11.0, 3), Estimate(20.0), Estimate(20.0), Estimate(10.0), True, None),),
    deadline_s=60.0,
)  # fmt: skip


@pytest.mark.parametrize(
    "record",
    [DECISION, Odd((1, "a"), {"x": 1.0, "y": None}, Estimate(1.0), (Estimate(2.0, 1.0, 3.0, 4),), True)],
)
def test_a_record_is_the_same_after_json(record):
    assert record_from(type(record), json.loads(json.dumps(plain_data(record), allow_nan=False))) == record


def test_a_number_that_is_not_finite_is_unknown():
    assert plain_data(Estimate(1.0, float("nan"), float("inf"))) == {
        "value": 1.0,
        "low": None,
        "high": None,
        "n": 1,
    }


def test_a_missing_key_takes_the_default_and_an_unknown_one_is_passed_over():
    assert record_from(Estimate, {"value": 2, "colour": "red"}) == Estimate(2.0)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"value": "fast"},
        {"value": True},
        {"value": 1.0, "n": 1.5},
        [1.0],
        None,
        {"value": 1.0, "n": None},
    ],
)
def test_what_does_not_fit_the_annotations_is_refused(data):
    with pytest.raises((TypeError, ValueError)):
        record_from(Estimate, data)


def test_a_number_that_was_not_finite_is_nan_where_there_must_be_one():
    assert math.isnan(record_from(Estimate, {"value": None}).value)
    assert record_from(Estimate, {"value": 1.0, "low": None}).low is None
