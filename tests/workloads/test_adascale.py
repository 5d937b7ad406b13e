"""AdaScale: the gain is what the noise of gradients says, known answers first."""

import pytest
import torch
from torch import nn

from paceline_workloads.training.adascale import AdaScale, gain, moments
from paceline_workloads.training.learning_rate import RatePlan, peak
from paceline_workloads.training.trainer import train
from tests.scripts import equal_training as tiny


def plan(**changed):
    usual = {"lr": 0.1, "base_batch": 8, "global_batch": 32, "rule": "adascale", "schedule": "constant"}
    return RatePlan(**{**usual, "warmup_samples": 0.0, "total_samples": 1e6, **changed})


@pytest.mark.parametrize(
    ("square", "variance", "expected"),
    [
        (4.0, 0.0, 1.0),  # no noise: a larger batch gains nothing
        (0.0, 64.0, 4.0),  # noise alone: it gains all, S = 4
        (4.0, 32.0, (4 + 4) / (1 + 4)),  # v = 32 / 8 = 4
        (-1.0, 32.0, 4.0),  # an estimate below zero is noise
        (0.0, 0.0, 1.0),
    ],
)
def test_the_gain_lies_between_one_and_the_ratio_of_batches(square, variance, expected):
    assert gain(square, variance, scale=4.0, base_batch=8) == pytest.approx(expected)


def test_moments_are_those_that_expectations_give():
    """|G|² = 4, tr Σ = 200: parts of 8 have |g|² = 4 + 25 in the mean, 32 samples together 4 + 6.25."""
    assert moments(29.0, 10.25, part=8, whole=32) == pytest.approx((4.0, 200.0))


def test_the_gain_of_a_known_gradient_is_found_and_drives_rate_and_schedule():
    """The mean output of a linear network has the mean input as gradient: |G|² = 16, tr Σ = 200, v = 25, S = 4."""
    expected = (25 + 16) / (25 / 4 + 16)
    torch.manual_seed(0)
    network = nn.Linear(200, 1, bias=False)
    scaling = AdaScale(network, plan(), part=8, accumulate=4, optimizer="sgd")
    assert scaling.rate() == pytest.approx(0.1)  # nothing is known before the first step
    for _ in range(300):
        network.zero_grad()
        for _ in range(4):
            (network((16 / 200) ** 0.5 + torch.randn(8, 200)).mean() / 4).backward()
        scaling.stepped()
    assert scaling.square == pytest.approx(16.0, rel=0.1)
    assert scaling.variance == pytest.approx(200.0, rel=0.1)
    assert scaling.gain == pytest.approx(expected, rel=0.05)
    assert scaling.rate() == pytest.approx(0.1 * expected, rel=0.05)
    assert scaling.samples == pytest.approx(300 * expected * 8, rel=0.05)


def test_adam_takes_the_root_of_the_gain():
    scaling = AdaScale(nn.Linear(2, 1), plan(), part=8, accumulate=4, optimizer="adam")
    scaling.restore({"square": 0.0, "variance": 64.0, "samples": 0.0, "steps": 9.0})
    assert scaling.rate() == pytest.approx(0.2)


def test_the_schedule_moves_by_the_gain_not_by_the_batch():
    """Warm-up over 80 samples at the base batch of 8: after 5 steps of gain 1, half-way, however large the batch."""
    scaling = AdaScale(nn.Linear(2, 1), plan(warmup_samples=80.0), part=8, accumulate=4, optimizer="sgd")
    scaling.restore({"square": 1.0, "variance": 0.0, "samples": 0.0, "steps": 9.0})
    for _ in range(5):
        scaling.stepped()
    assert scaling.samples == pytest.approx(40.0)
    assert scaling.rate() == pytest.approx(0.1 * 44 / 80)


def test_the_peak_before_any_gain_is_the_rate_itself():
    assert peak(plan()) == 0.1


def trained(folder, *words):
    flags = ("--global-batch", "16", "--accumulate", "2", "--base-batch", "4", "--lr-rule", "adascale")
    asked = tiny.asked(*flags, "--checkpoint", str(folder), *words, workers=1)
    return train(tiny.task(), asked, tiny.alone())


def test_a_training_by_adascale_resumes_bit_for_bit(tmp_path):
    whole = trained(tmp_path / "whole", "--epochs", "3")
    trained(tmp_path / "parts", "--epochs", "1")
    parts = trained(tmp_path / "parts", "--epochs", "3", "--resume")
    for one, other in zip(whole.plain.parameters(), parts.plain.parameters(), strict=True):
        assert torch.equal(one, other)
    rate = whole.optimizer.param_groups[0]["lr"]
    assert 0.05 < rate < 4 * 0.05  # more than at the base batch, less than the linear rule


def test_one_worker_with_one_backward_is_refused():
    with pytest.raises(SystemExit):
        tiny.asked("--global-batch", "16", "--base-batch", "4", "--lr-rule", "adascale", workers=1)
