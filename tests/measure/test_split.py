"""Laws of the split: known waits come out as wire and straggle, and the parts add up."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.measure.split import split
from paceline.records import Exchange
from tests.support.samples import WARMUP, result, sample, steady, worker

STEPS = 20
KS = range(2, WARMUP + STEPS + 1)


def of(*workers):
    return split(result(workers), warmup=WARMUP, steps=STEPS)


def test_one_worker_computes_all_the_time():
    parts = split(steady(1, 0.1), warmup=WARMUP, steps=STEPS)
    assert parts.compute_s == parts.step_s == pytest.approx(0.1)
    assert parts.wire_s == parts.straggle_s == parts.exposed_s == 0.0


def test_the_last_to_arrive_waits_for_the_wire_and_the_first_for_the_last():
    """Worker 1 computes 60 ms, worker 0 only 10 ms; the wire takes 5 ms after both are there."""
    parts = of(
        worker(0, [sample(k, 0.065, 0.055) for k in KS]),
        worker(1, [sample(k, 0.065, 0.005) for k in KS]),
    )
    assert parts.wire_s == pytest.approx(0.005)
    assert parts.straggle_s == pytest.approx(0.050)
    assert parts.compute_s == pytest.approx(0.010)
    assert parts.slowest_worker == 1
    assert parts.slowest_lag_s == pytest.approx(0.050)


def test_one_late_worker_of_four_is_named_and_not_typical():
    early = [worker(rank, [sample(k, 0.1, 0.05) for k in KS], 4) for rank in (0, 1, 3)]
    parts = of(early[0], early[1], worker(2, [sample(k, 0.1, 0.01) for k in KS], 4), early[2])
    assert parts.slowest_worker == 2
    assert parts.straggle_s == pytest.approx(0.04)


def test_workers_that_are_late_in_turn_are_not_named_but_cost_time():
    first = [sample(k, 0.1, 0.04 if k % 2 else 0.01) for k in KS]
    second = [sample(k, 0.1, 0.01 if k % 2 else 0.04) for k in KS]
    parts = of(worker(0, first), worker(1, second))
    assert parts.slowest_worker is None
    assert parts.wire_s == pytest.approx(0.01)
    assert parts.straggle_s == pytest.approx(0.015, abs=0.002)  # 30 ms in every second step


def test_workers_that_are_released_late_in_turn_take_no_longer_than_the_clock_says():
    """A slow ring lets one worker go 10 ms later in every second step: both make 0.1 s per step by any clock."""
    parts = of(
        worker(0, [sample(k, 0.11 if k % 2 else 0.09, 0.06 if k % 2 else 0.04) for k in KS]),
        worker(1, [sample(k, 0.09 if k % 2 else 0.11, 0.04 if k % 2 else 0.06) for k in KS]),
    )
    assert parts.step_s == pytest.approx(0.1, rel=0.01)
    assert parts.wire_s + parts.straggle_s == pytest.approx(0.05, rel=0.03)
    assert parts.compute_s == pytest.approx(0.05, rel=0.03)


def test_lateness_by_chance_costs_the_expected_maximum():
    """Two workers, normal own times: E[max] - mean = 0.5642 sd (the mean of the larger of two)."""
    source = random.Random(4)
    sd, ks = 0.01, range(2, 402)
    owns = [[source.gauss(0.1, sd) for _ in ks] for _ in range(2)]
    workers = []
    for rank in range(2):
        samples = []
        for index, k in enumerate(ks):
            release = max(owns[0][index], owns[1][index])
            samples.append(sample(k, release, release - owns[rank][index]))
        workers.append(worker(rank, samples))
    parts = split(result(workers), warmup=0, steps=400)
    assert parts.straggle_s == pytest.approx(0.5642 * sd, rel=0.25)


@given(
    st.lists(
        st.tuples(st.floats(0.01, 0.2), st.floats(0.0, 0.1), st.floats(0.0, 0.05)),
        min_size=STEPS + 3,
        max_size=STEPS + 3,
    )
)
def test_the_parts_add_up_to_the_step(rows):
    """compute + wire + straggle = step, whatever the waits; none is negative."""
    first = [sample(k, own + lag + wire, lag + wire) for k, (own, lag, wire) in zip(KS, rows, strict=False)]
    second = [sample(k, own + lag + wire, wire) for k, (own, lag, wire) in zip(KS, rows, strict=False)]
    parts = of(worker(0, first), worker(1, second))
    assert parts.compute_s + parts.wire_s + parts.straggle_s == pytest.approx(parts.step_s, rel=1e-9)
    assert parts.exposed_s == pytest.approx(parts.step_s - parts.compute_s, abs=1e-12)
    assert min(parts.compute_s, parts.wire_s, parts.straggle_s) >= -1e-12


def test_two_collectives_with_different_last_workers_are_told_apart():
    """Worker 0 waits 30 ms in the first collective, worker 1 in the second; each wire part is 1 ms."""
    a = [sample(k, 0.2, exchanges=(Exchange(0.031), Exchange(0.001))) for k in KS]
    b = [sample(k, 0.2, exchanges=(Exchange(0.001), Exchange(0.031))) for k in KS]
    assert of(worker(0, a), worker(1, b)).wire_s == pytest.approx(0.002)


def test_copying_gradients_back_is_compute_not_wire():
    samples = [sample(k, 0.1, 0.02) for k in KS]
    parts = of(worker(0, samples, copy_back_s=0.005), worker(1, samples, copy_back_s=0.005))
    assert parts.wire_s == pytest.approx(0.015)
    assert parts.compute_s == pytest.approx(0.085)


def test_steps_that_were_not_looked_at_count_for_the_step_but_not_for_its_split():
    """Looking costs time: every second step is 2 ms longer for it. The wait of 10 ms is known in those only."""
    mixed = [sample(k, 0.100 if k % 2 else 0.102, None if k % 2 else 0.010) for k in KS]
    parts = of(worker(0, mixed), worker(1, mixed))
    assert parts.step_s == pytest.approx(0.101, abs=0.0005)
    assert parts.wire_s == pytest.approx(parts.step_s * 10 / 102)
    assert parts.compute_s == pytest.approx(0.091, abs=0.0005)


def test_steps_that_were_looked_at_and_were_longer_by_chance_leave_time_to_compute():
    """Every second step waits 8 of 10 ms, and only those were looked at; the others take 2 ms in all."""
    mixed = [sample(k, 0.002 if k % 2 else 0.010, None if k % 2 else 0.008) for k in KS]
    parts = of(worker(0, mixed), worker(1, mixed))
    assert parts.compute_s == pytest.approx(parts.step_s / 5)
    assert parts.wire_s == pytest.approx(parts.step_s * 4 / 5)


def test_workers_that_exchange_nothing_wait_for_nobody():
    parts = of(
        worker(0, [sample(k, 0.1, exchanges=(), exchanged_bytes=0) for k in KS]),
        worker(1, [sample(k, 0.2, exchanges=(), exchanged_bytes=0) for k in KS]),
    )
    assert parts.wire_s == parts.straggle_s == parts.exposed_s == 0.0
    assert parts.compute_s == parts.step_s == pytest.approx(0.2)
    assert parts.slowest_worker is None


def test_without_enough_looks_the_step_is_known_and_its_split_is_not():
    never = [sample(k, 0.1, None, exchanged_bytes=None) for k in KS]
    parts = of(worker(0, never), worker(1, never))
    assert parts.step_s == pytest.approx(0.1)
    assert parts.compute_s is parts.wire_s is parts.exchanged_bytes_per_step is None


def test_steps_in_which_a_loader_was_restarted_are_left_out():
    samples = [sample(k, 3.0, 0.01, boundary=True) if k % 7 == 0 else sample(k, 0.1, 0.01) for k in KS]
    assert of(worker(0, samples), worker(1, samples)).step_s == pytest.approx(0.1)


def test_warm_up_steps_are_left_out():
    samples = [sample(k, 1.0 if k <= WARMUP + 1 else 0.1, 0.01) for k in KS]
    assert of(worker(0, samples), worker(1, samples)).step_s == pytest.approx(0.1)


def test_one_wild_step_does_not_move_the_mean():
    samples = [sample(k, 50.0 if k == 12 else 0.1, 0.01) for k in KS]
    assert of(worker(0, samples), worker(1, samples)).step_s == pytest.approx(0.1)


def test_too_few_steps_or_a_missing_worker_give_no_split():
    assert of(worker(0, [sample(2, 0.1)]), worker(1, [sample(2, 0.1)])) is None
    lonely = result([worker(0, [sample(k, 0.1) for k in KS])])
    from dataclasses import replace

    two = replace(lonely, trial=replace(lonely.trial, point=replace(lonely.trial.point, workers=2)))
    assert split(two, warmup=WARMUP, steps=STEPS) is None


def test_waits_that_nobody_saw_are_unknown_not_zero():
    samples = [sample(k, 0.1, 0.0) for k in KS]
    parts = of(worker(0, samples, waits_seen=False), worker(1, samples, waits_seen=False))
    assert parts.step_s == pytest.approx(0.1)
    assert parts.compute_s is parts.wire_s is parts.straggle_s is parts.exposed_s is None


def test_buckets_are_ready_when_the_last_worker_has_them():
    samples = [sample(k, 0.1, 0.01) for k in KS]
    first = {"buckets": [[100, 0.01], [200, 0.05]], "backward_end_s": 0.06}
    second = {"buckets": [[100, 0.02], [200, 0.04]], "backward_end_s": 0.05}
    parts = of(worker(0, samples, timeline=first), worker(1, samples, timeline=second))
    assert [(b.size_bytes, b.ready_s) for b in parts.buckets] == [(100, 0.02), (200, 0.05)]
    assert parts.backward_end_s == 0.06
