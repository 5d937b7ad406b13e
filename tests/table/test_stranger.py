"""What a stranger's table must not do: contradict itself, or stand on its head."""

import pytest

from paceline.analysis.table import table_analysis
from paceline.decide.sentence import verdict_text
from paceline.table.profiles import profiles_of
from paceline.table.read import read_table


@pytest.fixture(scope="module")
def steps_only():
    return table_analysis(read_table("gpus,step_ms\n1,100\n2,110\n4,115\n8,140\n"))


def test_advice_and_sentence_agree_where_no_batch_is_known(steps_only):
    advised = {r.goal: r.workers for r in steps_only.recommendations}
    assert verdict_text(steps_only.verdict).startswith("Use 8 GPUs: 5.71x faster than 1")
    assert advised["fastest"] >= 8
    assert advised["knee"] >= 8
    assert advised["cheapest"] == 1


def test_a_step_of_eight_workers_does_the_work_of_eight_where_no_batch_is_known(steps_only):
    eight = next(o for o in steps_only.decision.options if o.workers == 8)
    assert steps_only.decision.work == "one worker's batch"
    assert eight.time_s.value == pytest.approx(0.140 / 8)
    assert eight.worker_s.value == pytest.approx(0.140)


def test_counts_of_a_strong_curve_stand_in_ascending_order():
    table = "workers,step_ms,global_batch\n4,31,256\n1,100,256\n2,55,256\n"
    assert [p.point.workers for p in profiles_of(read_table(table))] == [1, 2, 4]


def test_a_count_that_ran_out_of_memory_is_neither_foreseen_nor_to_be_measured_next():
    analysis = table_analysis(read_table("gpus,epoch_s\n1,319\n2,170\n4,95\n8,OOM\n"))
    assert 8 not in [p.workers for p in analysis.projections]
    assert [r.rule for r in analysis.refusals if r.workers == 8] == ["failed"]
    assert not any("measure 8 workers" in r.text for r in analysis.recommendations)
    assert not any("measure 8 workers" in r.would_help for r in analysis.refusals)


def test_the_fitted_line_is_relative_to_what_the_points_are_relative_to():
    """The strong line of this table begins at 2 workers; its Baseline, 1 worker, belongs to the weak line."""
    table = "gpus,per_gpu_batch,epoch_s\n1,32,272\n2,32,153\n4,32,80\n2,16,274\n4,8,242\n"
    analysis = table_analysis(read_table(table))
    strong = next(p for p in analysis.points if p.point.id == "w2-b16")
    line = next(
        x for x in analysis.fit.lines if x.baseline == "w2-b16" and x.method == "log-log"
    )  # exact on two points
    assert strong.efficiency_ratio.value == pytest.approx(272 / 274 / 2)
    assert line.efficiency_ratio[0] == pytest.approx(strong.efficiency_ratio.value)
    assert line.speedup[0] == pytest.approx(strong.speedup.value)


def test_the_next_measurement_promises_no_narrower_interval_than_a_fit_can_have():
    analysis = table_analysis(read_table("workers,step_ms,batch\n1,210,64\n2,224,64\n4,251,64\n"))
    following = next(r for r in analysis.recommendations if r.goal == "next-measurement")
    assert float(following.why.rsplit("about ", 1)[1].removesuffix("x")) >= 1.3
