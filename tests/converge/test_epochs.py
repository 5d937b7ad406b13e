"""Plateaus, noise scale, epochs at another batch, and whether accuracy survives."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.check.table_training import training_findings
from paceline.converge.epochs import (
    Curve,
    accuracy_survives,
    convergence_of,
    epochs_law,
    fit_epochs,
    isotonic,
    noise_scale,
    plateau,
)
from paceline.table.read import read_table


def _curve(noise=0.0, *, seed=0, epochs=40, tau=6.0, batch=64):
    random = np.random.default_rng(seed)
    at = np.arange(1, epochs + 1)
    values = 0.9 * (1 - np.exp(-at / tau)) + noise * random.standard_normal(epochs)
    return Curve(batch, tuple(float(x) for x in at), tuple(float(v) for v in values))


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=30))
@settings(deadline=None)
def test_the_isotonic_envelope_rises_and_keeps_the_mean(values):
    found = isotonic(values)
    assert all(a <= b + 1e-9 for a, b in pairwise(found))
    assert np.mean(found) == pytest.approx(np.mean(values), abs=1e-9)


def test_a_rising_sequence_is_its_own_envelope():
    assert isotonic([1.0, 2.0, 3.0]) == [1.0, 2.0, 3.0]
    assert isotonic([3.0, 1.0]) == [2.0, 2.0]


def test_the_plateau_is_where_the_curve_comes_within_the_tolerance_to_stay():
    found, censored = plateau(_curve(), within=0.9 * np.exp(-18 / 6.0))
    assert not censored
    assert found.value == pytest.approx(18, abs=1)


def test_noise_moves_the_plateau_little_and_the_interval_holds_the_truth():
    held = 0
    for seed in range(20):
        found, _ = plateau(_curve(0.003, seed=seed), within=0.9 * np.exp(-18 / 6.0))
        assert abs(found.value - 18) <= 6
        held += found.low - 0.5 <= 18 <= found.high + 0.5
    assert held >= 14


def test_a_curve_that_still_rises_is_censored():
    found, censored = plateau(_curve(epochs=8, tau=20.0))
    assert censored
    assert found.high is None
    assert found.value == 8


def test_three_epochs_say_nothing():
    assert plateau(Curve(64, (1.0, 2.0, 3.0), (0.1, 0.2, 0.3))) == (None, True)


def test_a_constant_noise_scale_is_found_whatever_the_norms():
    found = noise_scale([1.0, 3.0, 2.0, 0.5], [100.0, 300.0, 200.0, 50.0], batch=32)
    assert found.value == pytest.approx(100.0)
    assert found.low == pytest.approx(found.high)


def test_an_epoch_without_signal_is_endless_noise_and_does_not_break_the_average():
    """Half the epochs need B/batch times the samples, half need no more: the mean is what a training pays."""
    found = noise_scale([1.0, 0.0, 1.0, -0.1], [1e-12, 5.0, 1e-12, 5.0], batch=10)
    assert (100 + found.value) / (10 + found.value) == pytest.approx((100 / 10 + 1) / 2)
    assert noise_scale([0.0], [1.0]) is None
    assert noise_scale([], []) is None


def test_epochs_at_a_larger_batch_follow_the_law_that_made_them():
    batches = [64, 128, 256, 512, 1024]
    epochs = [10 * (1 + (b / 1000) ** 0.93) for b in batches]
    law = fit_epochs(batches, epochs)
    low, value, high = np.quantile(law.at(np.array([2048.0]), seed=0)[:, 0], [0.05, 0.5, 0.95])
    truth = 10 * (1 + 2.048**0.93)
    assert value == pytest.approx(truth, rel=0.08)
    assert low < truth < high


def test_one_batch_and_a_noise_scale_lie_between_linear_and_pessimistic():
    law = fit_epochs([64], [10.0], noise=1000.0)
    value = float(np.median(law.at(np.array([2048.0]), seed=0)))
    assert 10.0 < value < 10.0 * (2048 + 1000) / (64 + 1000) * 1.6


def test_curves_at_several_batches_give_a_critical_batch():
    curves = tuple(_curve(tau=t, batch=b) for b, t in ((64, 3.0), (256, 3.6), (1024, 6.0)))
    law = epochs_law(curves, {})
    found = convergence_of(curves, law)
    assert (
        found.critical_global_batch.low < found.critical_global_batch.value < found.critical_global_batch.high
    )
    assert not found.censored


def test_nothing_is_said_about_convergence_without_curves():
    assert convergence_of((), None) is None


def test_equal_seeds_survive_different_ones_do_not_and_few_cannot_tell():
    good = [0.900, 0.902, 0.899, 0.901, 0.900]
    assert accuracy_survives(good, [x - 0.001 for x in good], margin=0.01).verdict == "survives"
    assert accuracy_survives(good, [x - 0.05 for x in good], margin=0.01).verdict == "worse"
    assert accuracy_survives([0.90], [0.89], margin=0.01).verdict == "cannot tell"
    assert "1 seed" in accuracy_survives([0.90], [0.89], margin=0.01).text


def test_one_scattered_group_leaves_the_degrees_of_freedom_of_that_group():
    """Best accuracies of three seeds each: 0.0100 apart, and the second group alone makes the error: 2 degrees."""
    steady, scattered = [0.8882, 0.8880, 0.8870], [0.8708, 0.8827, 0.8796]
    found = accuracy_survives(scattered, steady, margin=0.0).difference
    assert found.low < 0 < found.value
    assert found.high - found.low == pytest.approx(2 * 2.88 * 0.00358, rel=0.02)


def test_a_small_validation_set_cannot_show_a_small_difference():
    found = accuracy_survives([0.9, 0.9, 0.9], [0.895, 0.895, 0.895], margin=0.005, validation_samples=500)
    assert found.verdict == "cannot tell"


def _accuracy_ids(small, large):
    rows = [f"1,32,100,{a}" for a in small] + [f"4,32,40,{a}" for a in large]
    table = read_table("workers,per_worker_batch,epoch_s,accuracy\n" + "\n".join(rows) + "\n")
    return {f.id for f in training_findings(table.rows) if f.id in _SURVIVAL}


_SURVIVAL = {"accuracy-survives", "accuracy-falls", "accuracy-undecided"}


def test_a_table_with_seeds_says_whether_accuracy_survives():
    seeds = (0.900, 0.901, 0.899)
    assert _accuracy_ids(seeds, seeds) == {"accuracy-survives"}
    assert _accuracy_ids(seeds, (0.850, 0.851, 0.849)) == {"accuracy-falls"}
    assert _accuracy_ids(seeds, (0.880, 0.920, 0.890)) == {"accuracy-undecided"}
    assert _accuracy_ids(seeds, (0.900,)) == {"accuracy-undecided"}
    assert _accuracy_ids((0.9,), (0.9,)) == set()


def test_what_comes_beyond_is_told_by_the_largest_batches_rather_than_by_the_smallest():
    batches = [64.0, 256.0, 1024.0]

    def beyond(needed):
        return float(np.median(fit_epochs(batches, needed).at(np.array([4096.0]), seed=1)))

    plain = beyond([10.0, 10.5, 12.0])
    first_off, last_off = beyond([10.8, 10.5, 12.0]), beyond([10.0, 10.5, 12.96])  # both by 8 %
    assert abs(first_off / plain - 1) < abs(last_off / plain - 1) / 2
