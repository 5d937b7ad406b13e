"""Laws of speed-up and efficiency, and of the checks and the verdict that follow from them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.analysis.study import study_analysis
from paceline.check.study import study_findings
from paceline.decide.sentence import verdict_text
from paceline.measure.profiles import curve, launches
from paceline.plan.trials import plan_study
from paceline.records import Estimate, Study, Workload
from tests.support.samples import WARMUP, apart, result, sample, steady, worker

STEPS, STEP = 20, Estimate(0.1)
KS = range(2, WARMUP + STEPS + 1)


def study(workers=(1, 2), **asked):
    return Study(
        Workload("script", "train.py", batch_flag="--batch-size"),
        workers=workers,
        warmup=WARMUP,
        steps=STEPS,
        **asked,
    )


def groups_of(asked, results):
    return launches(plan_study(asked).points, results, warmup=WARMUP, steps=STEPS)


def points(asked):
    return {point.workers: point for point in plan_study(asked).points}


def both(first_s, second_s, repeats=3, **more):
    """A study at 1 and 2 workers, `repeats` launches each."""
    at = points(study())
    return [
        steady(count, step_s * (1 + 0.001 * repeat), point=at[count], repeat=repeat, **more)
        for repeat in range(1, repeats + 1)
        for count, step_s in ((1, first_s), (2, second_s))
    ]


def ids(findings):
    return {finding.id for finding in findings}


def test_weak_scaling_at_the_same_step_time_is_perfect():
    one, two = curve(groups_of(study(), both(0.1, 0.1)))
    assert two.speedup.value == pytest.approx(2.0)
    assert two.efficiency_ratio.value == pytest.approx(1.0)
    assert two.throughput_per_s.value == pytest.approx(64 / 0.1, rel=0.01)
    assert one.speedup.value == 1.0


@given(st.lists(st.tuples(st.floats(0.05, 0.5), st.floats(1e-4, 0.04)), min_size=1, max_size=6))
def test_the_parts_of_a_step_add_up_however_launches_differ(seen):
    at = points(study())[2]
    trials = [
        steady(2, step_s, point=at, repeat=k, wait_s=wait_s) for k, (step_s, wait_s) in enumerate(seen, 1)
    ]
    found = curve(groups_of(study((2,)), trials))[0]
    assert found.compute_s.value + found.wire_s.value + found.straggle_s.value == pytest.approx(
        found.step_s.value
    )
    for part in (found.compute_s, found.wire_s, found.straggle_s):
        assert part.low is None or part.low <= part.value <= part.high


def test_the_batch_that_was_seen_is_filled_in():
    _, two = curve(groups_of(study(), both(0.1, 0.1)))
    assert (two.point.per_worker_batch, two.point.global_batch, two.point.scaling) == (32, 64, "weak")


def test_a_script_that_divides_its_batch_does_strong_scaling():
    at = points(study())
    results = [
        steady(count, 0.1, point=at[count], repeat=repeat, samples=64 // count)
        for repeat in (1, 2)
        for count in (1, 2)
    ]
    _, two = curve(groups_of(study(), results))
    assert (two.point.scaling, two.point.global_batch) == ("strong", 64)
    assert two.speedup.value == pytest.approx(
        1.0
    )  # the same step time for the same global batch: nothing gained
    assert two.efficiency_ratio.value == pytest.approx(0.5)


def test_without_one_worker_the_fewest_are_the_baseline():
    asked = study(workers=(2, 4))
    at = points(asked)
    results = [steady(count, 0.1, point=at[count], repeat=repeat) for repeat in (1, 2) for count in (2, 4)]
    two, four = curve(groups_of(asked, results))
    assert two.speedup.value == 1.0
    assert four.speedup.value == pytest.approx(2.0)
    assert study_analysis(asked, results, {}).baseline == two.point.id


def test_a_failed_point_is_a_result():
    at = points(study())
    results = [steady(1, 0.1, point=at[1]), result([], point=at[2], state="oom")]
    analysis = study_analysis(study(), results, {})
    assert [p.state for p in analysis.points] == ["ok", "oom"]
    assert analysis.points[1].step_s is None
    assert "failed-point" in ids(analysis.findings)


def test_one_failed_launch_does_not_hide_the_good_ones():
    at = points(study())
    results = [*both(0.1, 0.1), result([], point=at[2], repeat=9, state="crashed")]
    _, two = curve(groups_of(study(), results))
    assert two.state == "ok"
    assert "1 of 4 runs failed" in two.reason


def test_bus_bandwidth_is_that_of_nccl_tests():
    """1,000 bytes in 10 ms at two workers: 1000 · 2(2-1)/2 / 0.01 = 100 kB/s; none at one worker."""
    one, two = curve(groups_of(study(), both(0.1, 0.1, wait_s=0.01)))
    assert two.bus_bytes_per_s.value == pytest.approx(1e5)
    assert one.bus_bytes_per_s is None


def test_no_part_of_a_step_is_less_than_nothing():
    at = points(study())
    results = [steady(2, 0.1, point=at[2], repeat=r, wait_s=w) for r, w in enumerate((0.0, 0.0, 0.03), 1)]
    _, two = curve(groups_of(study(), results))
    assert two.wire_s.low == 0.0
    assert two.wire_s.high > 0.03


# ---------------------------------------------------------------- checks


def findings_of(results, asked=None):
    groups = groups_of(asked or study(), results)
    return study_findings(groups, curve(groups))


def changed(results, **manifest):
    """The same results with other manifests on every worker."""
    from dataclasses import replace

    return [
        replace(r, workers=tuple(replace(w, manifest={**w.manifest, **manifest}) for w in r.workers))
        for r in results
    ]


def test_a_sound_study_has_no_doubts():
    assert not [f for f in findings_of(both(0.1, 0.11)) if f.level != "note"]


def test_a_script_that_was_edited_between_trials_is_doubted():
    one, two, *_ = both(0.1, 0.1)
    same = [replace(one, script_sha256="a" * 64), replace(two, script_sha256="a" * 64)]
    assert "script-changed" not in ids(findings_of(same))
    edited = [same[0], replace(two, script_sha256="b" * 64)]
    (found,) = [f for f in findings_of(edited) if f.id == "script-changed"]
    assert found.level == "doubt"
    assert f"{one.trial.id} has aaaaaaaa, {two.trial.id} has bbbbbbbb" in found.message


def test_workers_that_exchange_nothing_are_doubted():
    found = findings_of(apart(both(0.1, 0.1, exchanged_bytes=0)))
    assert "no-exchange" in ids(found)
    analysis = study_analysis(study(), apart(both(0.1, 0.1, exchanged_bytes=0)), {})
    assert (analysis.verdict.answer, analysis.verdict.workers) == ("no_answer", None)


def test_equal_weights_after_different_batches_prove_that_workers_exchanged():
    assert ids(findings_of(both(0.1, 0.1, exchanged_bytes=0))) == set()
    same = changed(both(0.1, 0.1, exchanged_bytes=0), batch_fingerprint=[1, 2, 3])
    assert {"no-exchange", "same-data"} <= ids(
        findings_of(same)
    )  # they may have done the same, each by itself


def test_steps_inside_a_cuda_graph_are_timed_and_not_split():
    hidden = {"wait_s": None, "exchanged_bytes": None, "optimizer_s": None}
    found = findings_of(changed(both(0.1, 0.1, **hidden), captured=True))
    assert ids(found) == {"waits-unseen"}
    assert "CUDA graph" in found[0].message


def test_a_worker_whose_steps_differ_is_named_with_what_it_costs_eight():
    at = points(study())
    uneven = [sample(k, 0.09 if k % 2 else 0.11) for k in KS]
    (found,) = [
        f for f in findings_of([result([worker(0, uneven, 1)], point=at[1])]) if f.id == "unsteady-steps"
    ]
    assert found.value == pytest.approx(0.02 / 2.317 / 0.1, rel=0.01)  # of so few steps, tenths are closer
    assert "unsteady-steps" not in ids(findings_of(both(0.1, 0.1)))


def test_weights_that_drift_apart_are_doubted():
    at = points(study())
    samples = [sample(k, 0.1) for k in KS]
    drifted = result([worker(0, samples), worker(1, samples, weights_checksum=1.1)], point=at[2])
    assert "replicas-differ" in ids(findings_of([drifted]))


def test_the_same_batches_on_all_workers_are_doubted():
    assert "same-data" in ids(findings_of(changed(both(0.1, 0.1), batch_fingerprint=[1, 2, 3])))


def test_another_batch_than_asked_for_is_doubted():
    asked = study(per_worker_batch=(64,))
    at = points(asked)
    results = [steady(1, 0.1, point=at[1]), steady(2, 0.1, point=at[2])]
    found = [f for f in findings_of(results, asked) if f.id == "batch-differs"]
    assert (found[0].value, found[0].threshold) == (32.0, 64.0)


def test_other_processes_on_the_machine_are_doubted():
    window = {"steps": 20, "wall_s": 2.0, "own_cpu_s": 2.0, "host_busy_s": 60.0, "host_steal_s": 10.0}
    found = findings_of(changed(both(0.1, 0.1), window=window))
    assert {"foreign-cpu", "stolen-cpu"} <= ids(found)
    one = next(f for f in found if f.id == "foreign-cpu")
    assert one.value == pytest.approx((60 - 2) / 2 / 64)  # one worker: 58 of 128 core seconds


@pytest.mark.parametrize(
    ("place", "doubted"),
    [
        ({"cpus": 1}, True),
        ({"cpus": 2}, False),
        ({"cpus": 64, "cpu_quota": 1.5}, True),  # one container for both
        ({"cpus": 64, "cpu_quota": 2.0}, False),
        ({"cpus": 1, "cpu_quota": 0.5}, True),
    ],
)
def test_more_threads_than_cores_are_doubted(place, doubted):
    found = ids(findings_of(changed(both(0.1, 0.1), **place)))
    assert ("more-workers-than-cores" in found) == doubted


@pytest.mark.parametrize(("quota", "doubted"), [(None, True), (0.6, True), (0.5, False), (0.25, False)])
def test_nodes_on_one_machine_share_its_cores_as_far_as_their_quotas_let_them(quota, doubted):
    """A laboratory: two hosts of one worker each, on a machine of one core."""
    asked = study(nodes=(1, 2), workers_per_node=(1,))
    results = [
        steady(point.workers, 0.1, point=point, repeat=repeat)
        for repeat in (1, 2, 3)
        for point in plan_study(asked).points
    ]
    found = ids(findings_of(changed(results, cpus=1, cpu_quota=quota), asked))
    assert ("more-workers-than-cores" in found) == doubted


def test_few_launches_are_doubted():
    assert "few-launches" in ids(findings_of(both(0.1, 0.1, repeats=1)))


def test_what_the_agent_costs_is_doubted_when_it_is_much():
    assert "agent-overhead" in ids(findings_of(both(0.1, 0.1, own_s=0.002)))
    assert "agent-overhead" not in ids(findings_of(both(0.1, 0.1, own_s=0.0009)))


def test_a_late_worker_slow_data_and_a_slow_wire_are_named():
    at = points(study())
    early = [sample(k, 0.1, 0.05, input_s=0.02) for k in KS]
    late = [sample(k, 0.1, 0.02, input_s=0.02) for k in KS]
    found = findings_of([result([worker(0, early), worker(1, late)], point=at[2])])
    assert {"straggler", "input-bound", "wire-bound"} <= ids(found)
    assert "worker 1" in next(f.message for f in found if f.id == "straggler")


def test_a_worker_that_is_late_for_want_of_data_is_said_to_be():
    at = points(study())
    early = [sample(k, 0.1, 0.08, input_s=0.005) for k in KS]
    late = [sample(k, 0.1, 0.005, input_s=0.075) for k in KS]
    found = findings_of([result([worker(0, early), worker(1, late)], point=at[2])])
    said = next(f for f in found if f.id == "late-data")
    assert said.message.endswith("worker 1 stands out in 1 of 1 run: it waits 70.0 ms longer for its data")
    assert said.hint == "more data-loader workers, or cheaper decoding"
    alone = steady(1, 0.1, point=at[1], input_s=0.085)
    text = verdict_text(
        study_analysis(study(), [alone, result([worker(0, early), worker(1, late)], point=at[2])], {}).verdict
    )
    assert "75% of each step is waiting for a worker whose data come late" in text


def test_where_nobody_stands_out_no_worker_is_to_be_looked_at():
    at = points(study())
    turns = [[sample(k, 0.1, 0.04 if k % 2 == rank else 0.0) for k in KS] for rank in (0, 1)]
    found = findings_of([result([worker(0, turns[0]), worker(1, turns[1])], point=at[2])])
    said = next(f for f in found if f.id == "straggler")
    assert said.message.endswith("now one, now another: none stands out")
    assert "that worker" not in said.hint


def test_a_worker_that_was_late_in_one_launch_of_three_is_not_named():
    at = points(study())
    turns = [[sample(k, 0.1, 0.04 if k % 2 == rank else 0.0) for k in KS] for rank in (0, 1)]
    uneven = [result([worker(0, turns[0]), worker(1, turns[1])], point=at[2], repeat=r) for r in (1, 2)]
    late = [[sample(k, 0.1, 0.05 if rank == 0 else 0.02) for k in KS] for rank in (0, 1)]
    once = result([worker(0, late[0]), worker(1, late[1])], point=at[2], repeat=3)
    said = next(f for f in findings_of([*uneven, once]) if f.id == "straggler")
    assert "worker 1" not in said.message


def test_a_script_that_ends_early_is_told_to_train_longer_not_to_measure_more():
    at = points(study())
    short = [sample(k, 0.1) for k in range(2, WARMUP + 6)]
    found = findings_of([result([worker(0, short, 1)], point=at[1])])
    said = next(f for f in found if f.id == "few-steps")
    assert said.message.endswith("the script ended 15 steps before the last one asked for")
    assert "--steps" not in said.hint


def test_batches_that_differ_are_noted_with_their_mean():
    at = points(study())
    sizes = [sample(k, 0.1, samples=64 if k % 4 == 0 else 16) for k in KS]
    said = next(
        f for f in findings_of([result([worker(0, sizes, 1)], point=at[1])]) if f.id == "batch-varies"
    )
    assert 16 < said.value < 64
    assert said.threshold == 16
    assert "batch-varies" not in ids(findings_of(both(0.1, 0.1)))


def test_a_failed_point_names_the_command_that_shows_its_output():
    at = points(study())
    found = findings_of([result([], point=at[2], repeat=9, state="crashed")])
    failed = next(f for f in found if f.id == "failed-point")
    assert failed.command == "paceline show STUDY --trial w2-9"
    assert failed.following == "paceline show STUDY --trial w2-9  (the end of its output)"


def test_accumulation_that_exchanges_every_time_is_doubted():
    from paceline.records import Exchange

    twice = {"exchanges": (Exchange(0.01), Exchange(0.01)), "backwards": 2, "exchanged_bytes": 2000}
    once = {"exchanges": (Exchange(0.01),), "backwards": 2}
    once_and_a_count = {"exchanges": (Exchange(0.01), Exchange(0.0)), "backwards": 2, "exchanged_bytes": 1016}
    assert "exchange-every-micro-step" not in ids(findings_of(both(0.1, 0.1, **once_and_a_count)))
    assert "exchange-every-micro-step" in ids(findings_of(both(0.1, 0.1, **twice)))
    assert "exchange-every-micro-step" not in ids(findings_of(both(0.1, 0.1, **once)))
    two_networks = changed(both(0.1, 0.1, **twice), optimizers=2)
    assert "exchange-every-micro-step" not in ids(findings_of(two_networks))
    used_twice = changed(both(0.1, 0.1, **twice), gradients_dropped=True)  # LBFGS, SAM: not added up
    assert "exchange-every-micro-step" not in ids(findings_of(used_twice))


def test_a_growing_batch_at_a_constant_learning_rate_is_noted():
    found = findings_of(changed(both(0.1, 0.1), optimizer={"name": "SGD", "lr": 0.1}))
    assert "lr-unscaled" in ids(found)
