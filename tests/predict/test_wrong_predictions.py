"""Tables that were predicted wrongly: each said something that no one who reads the table would believe."""

import numpy as np
import pytest

from paceline.analysis.question import Ask
from paceline.analysis.table import table_analysis
from paceline.records import Setting
from paceline.table.read import read_table


def asked(text, *settings):
    at = tuple((Setting(*setting), ()) for setting in settings)
    return table_analysis(read_table(text), ask=Ask(at=at))


def test_a_table_whose_time_grows_with_its_workers_goes_on_so():
    (found,) = asked("workers,step_s\n1,1\n2,2\n4,4\n", (8, 1, None)).projections
    assert found.time_s.value == pytest.approx(8.0, rel=0.05)


def test_an_epoch_that_no_worker_shortens_is_not_shortened_by_more():
    (found,) = asked("workers,epoch_s\n1,100\n2,100\n4,100\n", (8, 1, None)).projections
    assert found.time_s.value == pytest.approx(100.0, rel=0.1)


def test_what_the_best_fit_misses_is_doubted_in_what_it_predicts():
    smooth, wild = (
        asked(f"workers,epoch_s\n1,100\n2,60\n4,{four}\n8,40\n", (16, 1, None)).projections[0].time_s
        for four in (49, 70)
    )
    assert wild.high / wild.low > 1.3 * smooth.high / smooth.low


def test_tables_that_go_up_and_down_do_not_make_the_most_workers_the_fastest():
    analysis = asked("workers,epoch_s\n1,100\n2,60\n4,70\n8,58\n", (16, 1, None), (32, 1, None))
    fastest = next(r for r in analysis.recommendations if r.goal == "fastest")
    assert fastest.workers <= 8


@pytest.mark.parametrize("two", [50, 52, 55])
def test_two_points_are_no_advice_for_four_times_as_many(two):
    analysis = table_analysis(read_table(f"workers,epoch_s\n1,100\n2,{two}\n"))
    assert {p.workers for p in analysis.projections} == {4, 8}
    assert all(
        r.workers is None or r.workers <= 4 for r in analysis.recommendations if r.goal != "next-measurement"
    )


@pytest.mark.parametrize("times", [(100, 50, 25), (100, 51, 25.4), (100, 60, 35), (100, 48.5, 24.5)])
def test_no_interval_promises_more_than_105_percent(times):
    rows = "".join(f"{n},{t}\n" for n, t in zip((1, 2, 4), times, strict=True))
    for found in table_analysis(read_table("workers,epoch_s\n" + rows)).projections:
        assert found.efficiency_ratio.high <= 1.05 + 1e-9
        assert found.time_s.low >= times[0] / found.workers / 1.05 - 1e-9


def test_strong_scaling_is_answered_with_its_batches_as_without():
    with_batch = asked("workers,per_worker_batch,epoch_s\n1,256,100\n2,128,55\n4,64,32\n", (8, 1, 32))
    without = asked("workers,epoch_s\n1,100\n2,55\n4,32\n", (8, 1, None))
    assert not {r.rule for r in with_batch.refusals} & {"batch"}
    one, other = with_batch.projections[0].time_s, without.projections[0].time_s
    assert one.low < other.value < one.high


def test_a_row_without_its_batch_keeps_the_global_batch_that_the_table_kept():
    analysis = asked("workers,per_worker_batch,step_s\n1,256,1.0\n2,128,0.52\n4,64,0.28\n", (8, 1, None))
    (found,) = analysis.projections
    assert found.per_worker_batch == 32
    assert found.time_s.value < 0.28


@pytest.mark.parametrize("slow", [1.0, 1.05, 1.08])
def test_one_worker_that_was_slow_by_noise_does_not_stop_the_answer(slow):
    rows = "".join(f"{n},{t}\n" for n, t in ((1, 100 * slow), (2, 50.5), (4, 25.6)))
    analysis = table_analysis(read_table("workers,epoch_s\n" + rows))
    assert not {r.rule for r in analysis.refusals} & {"not-comparable"}
    assert np.all([p.workers in (8, 16) for p in analysis.projections])
    assert len(analysis.projections) == 2


def test_two_networks_of_a_table_learn_each_at_its_own_pace():
    rows = [("fast", 100, (5, 6, 7)), ("slow", 200, (90, 100, 110))]
    text = "model,workers,per_worker_batch,epoch_s,epochs_to_target\n" + "".join(
        f"{name},{n},32,{alone / n:g},{epochs}\n"
        for name, alone, needed in rows
        for n, epochs in zip((1, 2, 4), needed, strict=True)
    )
    for found in table_analysis(read_table(text)).projections:
        needed = found.time_to_accuracy_s.value / found.time_s.value
        assert needed < 20 if found.explanation.startswith("fast") else 90 < needed < 250
