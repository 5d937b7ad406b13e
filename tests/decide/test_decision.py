"""Time against cost, the lines of a fit, and the buckets of a step: what the report draws is computed here."""

import pytest

from paceline.analysis.outlook import outlook
from paceline.analysis.question import Ask
from paceline.analysis.table import table_analysis
from paceline.core.errors import UsageError
from paceline.decide.options import Prices, planned
from paceline.measure.buckets import timeline
from paceline.measure.course import courses
from paceline.records import BucketReady, Estimate, Point, Profile, Telemetry, Trial, TrialResult
from paceline.table.read import read_table


def step_at(workers, step_s, *, batch=32, scaling="weak", nodes=1):
    each = batch if scaling == "weak" else batch // workers
    point = Point(f"{scaling}-w{workers}-{batch}", workers, nodes, each, each * workers, scaling)
    return Profile(point, "ok", None, trials=3, step_s=Estimate(step_s, step_s * 0.99, step_s * 1.01, 3))


WEAK = (step_at(1, 0.100), step_at(2, 0.110), step_at(4, 0.125))


@pytest.fixture(scope="module")
def found():
    return outlook(WEAK, "step", ask=Ask(prices=Prices(per_worker_hour=2.0, currency="EUR")))


def test_an_option_costs_its_price_times_its_workers_times_its_time(found):
    decision = found.decision
    assert (decision.work, decision.cost_unit, decision.complete) == ("a million samples", "EUR", False)
    for option in decision.options:
        assert option.worker_s.value == pytest.approx(option.workers * option.time_s.value)
        assert option.node_s.value == pytest.approx(option.nodes * option.time_s.value)
        assert option.cost.value == pytest.approx(2.0 * option.worker_s.value / 3600)
    first = decision.options[0]
    assert first.time_s.value == pytest.approx(1e6 / 32 * 0.100, rel=1e-3)
    assert (first.measured, first.marginal_cost) == (True, None)


def test_the_price_of_an_hour_saved_is_what_is_paid_more_over_what_is_saved(found):
    one, two = found.decision.options[:2]
    saved_h = (one.time_s.value - two.time_s.value) / 3600
    assert two.marginal_cost == pytest.approx((two.cost.value - one.cost.value) / saved_h, rel=1e-6)


def test_what_loses_time_and_costs_more_is_not_in_the_pareto_set():
    slower = outlook((step_at(1, 0.100), step_at(2, 0.300)), "step", ask=Ask(project_to=()))
    assert [option.pareto for option in slower.decision.options] == [True, False]
    assert slower.decision.options[1].marginal_cost is None
    assert slower.decision.cost_unit == "worker-hours"


def test_planned_work_is_so_many_times_the_work_that_is_known(found):
    whole = planned(found.decision, samples=3e6, trainings=2)
    assert whole.work == "2 trainings of 3,000,000 samples"
    assert whole.options[1].worker_s.value == pytest.approx(6 * found.decision.options[1].worker_s.value)
    assert whole.complete


@pytest.mark.parametrize("asked", [{"epochs": 3.0}, {"trainings": 2}])
def test_work_whose_time_is_unknown_is_refused_with_what_to_give(found, asked):
    with pytest.raises(UsageError) as refused:
        planned(found.decision, **asked)
    assert "--samples" in refused.value.hint


def test_every_method_draws_a_line_through_measured_and_projected_counts(found):
    lines = {line.method: line for line in found.fit.lines}
    assert {"paceline", "amdahl", "usl"} <= set(lines)
    for line in lines.values():
        assert line.baseline == "weak-w1-32"
        assert line.workers == (1, 2, 4, 8, 16)
        assert line.efficiency_ratio == pytest.approx(
            [s / n for s, n in zip(line.speedup, line.workers, strict=True)]
        )
    assert lines["last"].efficiency_ratio == pytest.approx([0.8] * 5)
    assert lines["paceline"].speedup[1] == pytest.approx(2 * 0.100 / 0.110, rel=0.05)


def test_a_projection_names_the_line_that_it_continues():
    both = (
        *(step_at(n, 0.1, batch=64, scaling="strong") for n in (1, 2)),
        step_at(1, 0.1, batch=64),
        step_at(2, 0.11, batch=64),
    )
    found = outlook(both, "step", ask=Ask(project_to=(4,)))
    weak = [p for p in found.projections if p.per_worker_batch == 64]
    assert [(p.scaling, p.baseline) for p in weak] == [("weak", "weak-w1-64")]
    strong = table_analysis(
        read_table("workers,epoch_s\n1,100\n2,55\n4,32\n"), ask=Ask(project_to=(8,))
    ).projections
    assert [(p.scaling, p.baseline) for p in strong] == [("strong", "w1")]


def sampled(workers, counts, *, state="ok", repeat=1):
    """A trial whose workers use half a core, one sample per second, so many samples."""
    telemetry = tuple(
        Telemetry(rank, 0, 100.0 + t, 0.5 * t, 10**6, 2) for rank in range(workers) for t in range(counts)
    )
    trial = Trial(f"w{workers}-{repeat}", Point(f"w{workers}", workers), repeat, ())
    return TrialResult(trial, state, None, (), 1.0, telemetry=telemetry)


def test_a_course_is_the_rise_of_the_counter_over_the_rise_of_the_clock_in_the_last_launch_of_the_largest_count():
    found = courses([sampled(2, 4), sampled(1, 4), sampled(2, 4, repeat=2), sampled(4, 4, state="crashed")])
    assert [(c.trial, c.worker) for c in found] == [("w2-2", 0), ("w2-2", 1)]
    assert found[0].t_s == (1.0, 2.0, 3.0)
    assert found[0].cores == (0.5, 0.5, 0.5)
    assert found[0].memory_bytes == (10**6,) * 3


def test_a_long_course_is_thinned_and_a_short_one_says_nothing():
    (long,) = courses([sampled(1, 1000)])
    assert len(long.t_s) < 125
    assert set(long.cores) == {0.5}
    assert courses([sampled(1, 2)]) == ()
    assert courses([]) == ()


def test_buckets_leave_in_order_and_share_the_time_under_way_by_size():
    first, second, third = timeline(
        [BucketReady(300, 1.0), BucketReady(100, 0.5), BucketReady(200, 9.0)], busy_s=6.0
    )
    assert (first.sent_s, first.done_s) == (1.0, 4.0)
    assert (second.sent_s, second.done_s) == (1.0, 5.0)  # ready early, but sent after the one before it
    assert (third.sent_s, third.done_s) == (9.0, 11.0)
    assert [bucket.binds for bucket in (first, second, third)] == [False, False, True]


@pytest.mark.parametrize(
    ("buckets", "busy_s"), [((), 1.0), ((BucketReady(1, 1.0),), None), ((BucketReady(0, 1.0),), 1.0)]
)
def test_without_time_under_way_or_bytes_there_is_no_timeline(buckets, busy_s):
    assert timeline(buckets, busy_s) == ()


def test_the_first_bucket_binds_where_the_exchange_never_pauses():
    found = timeline([BucketReady(1, 1.0), BucketReady(1, 1.5)], busy_s=10.0)
    assert [bucket.binds for bucket in found] == [True, False]
