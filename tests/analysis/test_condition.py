"""Conditions of --fail-if: they hold where one setting breaks them, and pass only where every setting was measured."""

import pytest

from paceline.analysis.condition import condition, violations
from paceline.core.errors import NothingMeasured, UsageError
from paceline.records import Analysis, Estimate, Point, Profile
from tests.support.report_sample import told


def profile(mode, efficiency, *, workers=2, batch=32, state="ok"):
    point = Point(f"w{workers}-{mode}", workers, per_worker_batch=batch, varied=(("--mode", mode),))
    known = {} if efficiency is None else {
        "efficiency_ratio": Estimate(efficiency, n=3), "step_s": Estimate(0.1), "peak_memory_bytes": Estimate(2e9),
    }  # fmt: skip
    return Profile(point, state, None, **known)


def study(*profiles):
    return Analysis(told("v"), profiles, ())


def broken(text, *profiles):
    """The settings at which a condition holds."""
    return [found.point.id for found, _ in violations(condition(text), study(*profiles))]


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("efficiency@2<0.8", True),
        ("efficiency@2 < 78%", False),
        ("EFFICIENCY@2 < 80 %", True),
        ("efficiency_ratio@2>=0.79", True),
        ("step@2>90ms", True),
        ("step@2<=100 ms", True),
        ("step@2>0.1", False),
        ("memory@2>1GB", True),
        ("memory@2>2 GiB", False),
        ("memory@2>1999999999", True),
    ],
)
def test_a_condition_is_a_quantity_at_a_count(text, holds):
    assert bool(broken(text, profile("a", 0.79))) is holds


def test_a_condition_is_held_against_every_setting_and_names_those_that_break_it():
    settings = profile("a", 0.9), profile("b", 0.1), profile("c", 0.2), profile("d", 0.01, workers=4)
    assert broken("efficiency@2<0.5", *settings) == ["w2-b", "w2-c"]
    assert broken("efficiency@2[mode=b]<0.5", *settings) == ["w2-b"]
    assert broken("efficiency@2[ --mode = a ]<0.5", *settings) == []
    assert broken("efficiency@2[mode=b,batch=32,nodes=1,scaling=weak]<0.5", *settings) == ["w2-b"]


def test_a_value_keeps_its_capitals():
    assert broken("efficiency@2[mode=B]<0.5", profile("b", 0.1), profile("B", 0.2)) == ["w2-B"]


def test_a_setting_that_crashed_is_no_pass_and_no_excuse():
    lost = profile("b", None, state="crashed")
    with pytest.raises(NothingMeasured, match=r"w2-b has no measured value \(crashed\)"):
        broken("efficiency@2<0.5", profile("a", 0.9), lost)
    assert broken("efficiency@2[mode=a]<0.5", profile("a", 0.9), lost) == []
    assert broken("efficiency@2<0.5", profile("a", 0.3), lost) == ["w2-a"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("efficiency@8<0.7", "nothing was measured there; measured worker counts: 2"),
        ("efficiency@2[mode=z]<0.7", "no setting with 2 workers is named so; these are: batch=32, nodes=1"),
        ("wire@2>1ms", "nothing was measured there"),
    ],
)
def test_a_condition_on_what_was_not_measured_is_no_pass(text, said):
    with pytest.raises(NothingMeasured, match=said):
        broken(text, profile("a", 0.9))


@pytest.mark.parametrize(
    "text",
    [
        *("", "efficiency<0.7", "beauty@2<1", "efficiency@2", "efficiency@2<", "efficiency@x<1"),
        *("point@2<1", "state@2<1", f"step@{'9' * 5000}<1", "step@²<1"),
    ],
)
def test_what_is_not_a_condition_is_refused(text):
    with pytest.raises(UsageError, match="is not QUANTITY@WORKERS"):
        condition(text)


@pytest.mark.parametrize(
    "text",
    [
        *("efficiency@2<nan", "efficiency@2<NaN%", "step@2>inf", "step@2>1e999", "efficiency@2<80ms"),
        *(
            "memory@2>80ms",
            "memory@2>5%",
            "step@2>1GB",
            "step@2>5%",
            "efficiency@2[b]<1",
            "efficiency@2[=b]<1",
        ),
        "throughput@2<5s",
    ],
)
def test_a_limit_is_a_finite_number_in_a_unit_of_its_quantity(text):
    with pytest.raises(UsageError):
        condition(text)
