"""analysis.json: nothing is lost, nothing is not a number."""

import json
import math
from dataclasses import replace

import pytest

from paceline.analysis.json_file import analysis_data, analysis_from
from paceline.core.errors import StudyError
from paceline.records import (
    Analysis,
    BucketReady,
    Convergence,
    Estimate,
    Finding,
    Fit,
    Point,
    Profile,
    Projection,
    Reason,
    Recommendation,
    Refusal,
    Verdict,
)
from tests.support.report_sample import FULL

_POINT = Point("w2-b32", 2, nodes=1, per_worker_batch=32, global_batch=64, varied=(("amp", "on"),))
_FULL = Analysis(
    verdict=Verdict(
        "use", 2, 1, 2, Estimate(1.8, 1.7, 1.9, 5), points=("w2-b32",), limits=(Reason("one-run", "Once."),)
    ),
    points=(
        Profile(
            _POINT,
            "ok",
            None,
            trials=5,
            step_s=Estimate(0.1, 0.09, 0.11, 5),
            speedup=Estimate(1.8, 1.7, 1.9, 5),
            epochs=3.0,
            buckets=(BucketReady(1024, 0.01),),
            backward_end_s=0.02,
        ),
        Profile(replace(_POINT, id="w4-b32", workers=4), "oom", "worker 3 ran out of memory"),
    ),
    findings=(Finding("few-repeats", "doubt", "one launch", 1.0, 3.0, "measure again"),),
    baseline="w1-b32",
    source={"command": ["paceline", "study"], "torch": "2.13.0"},
    fit=Fit(
        {"exchange_bytes_per_s": Estimate(1e9, 5e8, 2e9, 3)}, ("hop_latency_s",), {"amdahl": 0.2, "usl": None}
    ),
    projections=(
        Projection(8, 1, 32, Estimate(0.2, 0.1, 0.3, 64), "step", None, None, None, None, None, "wire time"),
    ),
    refusals=(Refusal(1024, "horizon", "beyond", "measure 64"),),
    recommendations=(Recommendation("fastest", 8, 32, "linear", Estimate(2.0), None, "if", "use 8"),),
    convergence=Convergence(Estimate(18.0, 16.0, 20.0, 3), False, Estimate(500.0), Estimate(1000.0)),
)


def test_an_analysis_survives_the_round_trip_through_text():
    assert analysis_from(json.loads(json.dumps(analysis_data(_FULL)))) == _FULL


def test_a_point_is_flat_and_its_quantities_are_estimates():
    point = analysis_data(_FULL)["points"][0]
    assert list(point)[:9] == [
        "id", "workers", "nodes", "per_worker_batch", "global_batch", "scaling", "backend", "state", "reason",
    ]  # fmt: skip
    assert point["step_s"] == {"value": 0.1, "low": 0.09, "high": 0.11, "n": 5}
    assert point["exposed_s"] is None


def test_what_is_not_finite_is_written_as_unknown():
    profile = replace(
        _FULL.points[0], step_s=Estimate(math.nan), speedup=Estimate(2.0, -math.inf, math.inf, 2)
    )
    data = analysis_data(replace(_FULL, points=(profile,)))
    json.dumps(data, allow_nan=False)
    assert data["points"][0]["step_s"] is None
    assert data["points"][0]["speedup"] == {"value": 2.0, "low": None, "high": None, "n": 2}


def test_another_format_is_refused_with_a_way_out():
    with pytest.raises(StudyError, match="format 99"):
        analysis_from({**analysis_data(_FULL), "format": 99})


def test_an_epoch_without_a_number_is_an_error_that_a_user_can_act_upon():
    data = json.loads(json.dumps(analysis_data(FULL)))
    data["convergence"]["curves"][0]["epochs"][0] = None
    with pytest.raises(StudyError, match="epoch"):
        analysis_from(data)


@pytest.mark.parametrize("broken", [{"points": [{}]}, {"points": 3}, {"findings": [{"id": "x"}]}])
def test_a_damaged_analysis_is_an_error_that_a_user_can_act_upon(broken):
    with pytest.raises(StudyError):
        analysis_from({**analysis_data(_FULL), **broken})
