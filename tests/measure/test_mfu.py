"""What share of the devices' dense peak a step reaches."""

from __future__ import annotations

import pytest

from paceline.analysis.study import study_analysis
from paceline.plan.trials import plan_study
from paceline.records import Study, Workload
from tests.support.samples import WARMUP, result, sample, worker

GPUS = {"A": {"device_names": ["Alpha"], "fp32_flop_per_s": 1e12, "bf16_dense_flop_per_s": 8e12}}
STUDY = Study(Workload("script", "t.py"), workers=(2,), warmup=WARMUP, steps=20)


def point(*counted, name="Alpha"):
    """Two workers with steps of 0.1 s, and what each of them counted."""
    (at,) = plan_study(STUDY).points
    samples = [sample(k, 0.1) for k in range(2, WARMUP + 21)]
    own = [worker(rank, samples, flops=flops, device_name=name) for rank, flops in enumerate(counted)]
    return study_analysis(STUDY, [result(own, point=at)], {}, gpus=GPUS).points[0]


def test_operations_of_all_workers_over_what_all_devices_can_do():
    found = point({"float32": 2e10}, {"float32": 4e10})
    assert found.flops_per_step.value == 6e10
    assert found.mfu_ratio.value == pytest.approx(6e10 / (2 * 1e12) / 0.1)


def test_every_type_of_number_has_its_own_peak():
    found = point(*[{"float32": 1e10, "bfloat16": 8e10}] * 2)
    assert found.mfu_ratio.value == pytest.approx((2e10 / 2e12 + 16e10 / 16e12) / 0.1)


def test_without_a_peak_or_a_count_there_is_no_share():
    assert point(*[{"float32": 1e10}] * 2, name="Beta").mfu_ratio is None
    assert point(*[{"float32": 1e10, "float8": 1e9}] * 2).mfu_ratio is None
    uncounted = point({"float32": 1e10}, None)
    assert (uncounted.flops_per_step, uncounted.mfu_ratio) == (None, None)
