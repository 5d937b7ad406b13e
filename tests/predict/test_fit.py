"""The step law: known parameters are recovered, intervals cover at their stated rate, few points choose nothing."""

import time

import numpy as np
import pytest

from paceline.core.least_squares import minimise
from paceline.links.belief import measured
from paceline.predict.fit import fit_law, parameters, structures_for, unidentified
from paceline.predict.observations import observe, rows_of
from paceline.predict.project import draws, projections
from paceline.predict.step_law import (
    NAMES,
    STRUCTURES,
    Rows,
    Structure,
    dilation,
    exchange_s,
    expected_maximum,
    log_time,
    stacked,
    terms,
)
from paceline.records import BucketReady, Estimate, Link, Point, Profile, Setting


def _profile(workers, step_s, *, nodes=1, batch=32, **more):
    point = Point(f"w{workers}-n{nodes}-b{batch}", workers, nodes, batch, batch * workers)
    return Profile(point, "ok", None, 1, step_s=Estimate(step_s), **more)


def _theta(**values):
    defaults = {"x_i": 1e-3, "a_i": 1e-6, "x_n": 1e-2, "a_n": 1e-5, "kappa": 1e-6, "eta": 1e-6, "pair": 1.0,
                "gamma": 1e-6, "cv": 1e-6, "fixed": 1e-9, "t_ref": 0.1}  # fmt: skip
    found = [np.log({**defaults, **values}[name]) if name not in ("omega", "share") else values.get(name, -9.0)
             for name in NAMES]  # fmt: skip
    return np.array([[*found, 0.0]])


def _rows(workers, nodes=None):
    count = np.array(workers, dtype=float)
    zero = np.zeros(len(count), dtype=np.intp)
    where = np.ones(len(count)) if nodes is None else np.array(nodes, dtype=float)
    return Rows(count, where, np.ones(len(count)), zero, zero, np.zeros(len(count)), np.ones(len(count)))


def test_one_worker_pays_for_computing_only():
    compute, exposed, straggle = terms(_theta(), _rows([1]), STRUCTURES[0])
    assert compute[0, 0] == pytest.approx(0.1)
    assert exposed[0, 0] == straggle[0, 0] == 0.0


def test_a_ring_moves_at_most_twice_the_gradient_and_a_tree_once():
    rows = _rows([2, 4, 1000])
    _, ring = exchange_s(_theta(x_i=1.0), rows, False)
    _, tree = exchange_s(_theta(x_i=1.0), rows, True)
    assert ring[0] == pytest.approx([1.0, 1.5, 1.998])
    assert tree[0] == pytest.approx([1.0, 1.0, 1.0])


def test_exchange_hides_under_computing_until_it_is_longer():
    hidden = terms(_theta(x_i=0.01, omega=0.0), _rows([2]), STRUCTURES[0])[1][0, 0]
    exposed = terms(_theta(x_i=0.20, omega=0.0), _rows([2]), STRUCTURES[0])[1][0, 0]
    assert hidden < 0.001
    assert exposed == pytest.approx(0.20 - 0.05, rel=0.05)


def test_neighbours_count_nothing_alone_once_as_a_pair_and_ever_more_as_they_double():
    assert dilation(STRUCTURES[0], np.array([1.0, 2.0, 4.0, 16.0])) == pytest.approx(
        [0.0, 1.0, 2 ** (1 / 3), 4 ** (1 / 3)]
    )


def test_the_expected_maximum_agrees_with_drawing_it():
    drawn = np.random.default_rng(0).standard_normal((20_000, 8)).max(axis=1).mean()
    assert expected_maximum(np.array([1.0, 8.0])) == pytest.approx([0.0, drawn], abs=0.02)


def test_many_least_squares_problems_are_solved_at_once_each_with_its_own_belief():
    """Where data are linear the answer is known: (AᵀA + I)⁻¹ (Aᵀb + ε). A thousandth of χ² is a thirtieth of a sd."""
    random = np.random.default_rng(3)
    slopes, data = random.standard_normal((5, 3, 2)), random.standard_normal((5, 3))
    drawn = random.standard_normal((5, 2))
    found, _ = minimise(
        lambda z, which: np.einsum("prk,pk->pr", slopes[which], z) - data[which], np.zeros((5, 2)), drawn
    )
    for i in range(5):
        curvature = slopes[i].T @ slopes[i] + np.eye(2)
        assert found[i] == pytest.approx(
            np.linalg.solve(curvature, slopes[i].T @ data[i] + drawn[i]), abs=0.03
        )


def test_structures_fitted_together_are_those_fitted_alone():
    observed = observe([_profile(n, 0.1 + 0.01 * n) for n in (1, 2, 4)], "step")
    together, alone = structures_for(observed), []
    rows, theta = _rows([1, 2, 4]), np.repeat(_theta(x_i=0.05, kappa=0.1), len(together), axis=0)
    for i, structure in enumerate(together):
        alone.append(log_time(theta[[i]], rows, structure)[0][0])
    stack = stacked(together, np.arange(len(together)))
    assert log_time(theta, rows, stack)[0] == pytest.approx(np.array(alone))


def test_gloo_is_a_ring():
    profiles = [_profile(1, 0.1), _profile(2, 0.12)]
    gloo = [
        Profile(
            p.point.__class__(p.point.id, p.point.workers, 1, 32, 32, backend="gloo"),
            "ok",
            None,
            1,
            step_s=p.step_s,
        )
        for p in profiles
    ]
    assert {s.tree for s in structures_for(observe(gloo, "step"))} == {False}
    assert {s.tree for s in structures_for(observe(profiles, "step"))} == {False, True}


def test_known_parameters_are_recovered_from_exact_times():
    truth = _theta(x_i=0.08, kappa=0.05, omega=-0.4, t_ref=0.1, cv=0.005)
    workers = [1, 2, 3, 4, 6, 8]
    structure = Structure(tree=False)
    rows = _rows(workers)
    times = np.exp(log_time(truth, rows, structure)[0][0])
    exposed = terms(truth, rows, structure)
    profiles = [
        _profile(n, float(t), exposed_s=Estimate(float(exposed[1][0, i] + exposed[2][0, i])))
        for i, (n, t) in enumerate(zip(workers, times, strict=True))
    ]
    found = parameters(fit_law(observe(profiles, "step")))
    assert found["compute_alone_s"].value == pytest.approx(0.1, rel=0.03)
    assert found["compute_alone_s"].low < 0.1 < found["compute_alone_s"].high


def test_what_the_data_cannot_say_is_named():
    law = fit_law(observe([_profile(1, 0.1), _profile(2, 0.1)], "step"))
    assert "latency_inside_node_s" in unidentified(law)
    assert "compute_alone_s" not in unidentified(law)
    assert "exchange_between_nodes_s" not in parameters(law)


def test_a_measured_link_narrows_the_projection():
    gradient = Estimate(40e6)
    profiles = [
        _profile(1, 0.05, exchanged_bytes_per_step=gradient),
        _profile(2, 0.09, exchanged_bytes_per_step=gradient),
    ]
    observed = observe(profiles, "step")
    wide = projections(fit_law(observed), [Setting(8, 1, 32)])[0].time_s
    link = measured(Link(1e-5, 1e9, "inside", "probe"))
    tight = projections(fit_law(observed, inside=link), [Setting(8, 1, 32)])[0].time_s
    assert tight.high / tight.low < wide.high / wide.low


def test_buckets_seen_by_hooks_decide_what_is_exposed():
    """One bucket ready at the end of backward cannot hide; one ready at its beginning can."""
    link = measured(Link(1e-6, 1e9, "inside", "probe"))
    steps = {}
    for name, ready in (("late", 0.08), ("early", 0.01)):
        seen = {"buckets": (BucketReady(40_000_000, ready),), "backward_end_s": 0.08,
                "exchanged_bytes_per_step": Estimate(40e6)}  # fmt: skip
        law = fit_law(observe([_profile(1, 0.1, **seen)], "step"), inside=link)
        steps[name] = projections(law, [Setting(2, 1, 32)])[0]
    assert steps["late"].time_s.value == pytest.approx(0.14, rel=0.05)
    assert steps["early"].time_s.value == pytest.approx(0.10, rel=0.05)
    assert "bucket 1 of 1" in steps["late"].explanation


def test_intervals_cover_at_their_stated_rate_over_random_studies():
    """Two hundred studies whose truth is drawn from the prior with the discrepancy that is claimed."""
    random = np.random.default_rng(7)
    covered = []
    for i in range(200):
        structure = STRUCTURES[i % len(STRUCTURES)]
        truth = _theta(
            x_i=0.1 * 0.1 * float(np.exp(random.normal())),
            a_i=6e-5 * float(np.exp(random.normal())),
            kappa=0.015 * float(np.exp(1.3 * random.normal())),
            cv=0.005 * float(np.exp(0.8 * random.normal())),
            omega=-0.3 + 0.7 * random.normal(),
        )
        times = np.exp(log_time(truth, _rows([1, 2, 4]), structure)[0][0] + 0.02 * random.standard_normal(3))
        law = fit_law(
            observe([_profile(n, float(t)) for n, t in zip([1, 2, 4], times, strict=True)], "step"),
            members=12,
        )
        alone, there = log_time(truth, _rows([1, 16]), structure)[0][0]
        claimed = np.hypot(0.09 * np.sqrt(1.2), min(max(0.0, there - alone), 0.4))
        impossible = times[0] / 1.05  # more than so many workers can do
        future = max(float(np.exp(there + claimed * random.normal())), impossible)
        low, high = np.quantile(draws(law, [Setting(16, 1, 32)]).time_s, [0.05, 0.95])
        covered.append(low <= future <= high)
    assert 0.84 <= np.mean(covered) <= 0.97


def test_what_four_workers_of_a_node_lose_eight_may_lose_again():
    def width(times, workers):
        law = fit_law(observe([_profile(2**i, t) for i, t in enumerate(times)], "step"))
        (found,) = projections(law, [Setting(workers, 1, 32)])
        return found.time_s.high / found.time_s.low

    calm, lossy = (0.1, 0.1, 0.1), (0.1, 0.12, 0.13)
    assert width(calm, 8) < 1.6
    assert width(lossy, 8) > 2.0
    assert width((*lossy, 0.135), 16) < 1.6  # eight were seen on a node
    assert width(lossy[:2], 4) < 1.6  # four are no more than one half


def test_intervals_widen_with_distance():
    law = fit_law(observe([_profile(n, 0.1 + 0.004 * n) for n in (1, 2, 4)], "step"))
    near, far = (p.time_s for p in projections(law, [Setting(8, 1, 32), Setting(64, 1, 32)]))
    assert far.high / far.low > near.high / near.low


@pytest.mark.alone
def test_twelve_points_take_less_than_two_seconds_and_a_hundred_thousand_workers_less_than_one():
    profiles = [_profile(n, 0.1 + 0.003 * n, batch=b) for b in (16, 32, 64) for n in (1, 2, 4, 8)]
    fit_law(observe(profiles[:4], "step"), members=2)  # scipy is imported now
    start = time.perf_counter()
    law = fit_law(observe(profiles, "step"))
    assert time.perf_counter() - start < 2.0
    start = time.perf_counter()
    found = projections(law, [Setting(2**k, 1, 32) for k in range(17)] + [Setting(100_000, 1, 32)])
    assert time.perf_counter() - start < 1.0
    assert found[-1].workers == 100_000


def test_a_batch_between_two_measured_ones_lies_between_them():
    observed = observe([_profile(1, 0.1, batch=32), _profile(1, 0.2, batch=64)], "step")
    rows = rows_of(observed, [Setting(1, 1, 32), Setting(1, 1, 45), Setting(1, 1, 64)])
    assert rows.weight[0] == 0.0
    assert 0.4 < rows.weight[1] < 0.6
    assert (rows.below[1], rows.above[1]) == (0, 1)
