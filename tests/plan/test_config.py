"""Requests, checked and joined."""

from dataclasses import replace

import pytest

from paceline.core.errors import UsageError
from paceline.plan.config import backends, checked, joined, numbers, refuse_both_counts, scalings, vary
from paceline.records import Study, Workload

HELD = Study(Workload("script", "train.py", ("--x", "1")), workers=(1, 2), vary=(("--lr", ("0.1",)),))


def test_vary_names_the_flag_it_sets():
    assert vary("batch-size=32,64") == ("--batch-size", ("32", "64"))
    assert vary("b=1") == ("-b", ("1",))
    assert vary("--mode=a=b,c") == ("--mode", ("a=b", "c"))


@pytest.mark.parametrize("text", ["", "=1", "key", "key=", "--=1"])
def test_a_vary_without_key_or_value_is_refused(text):
    with pytest.raises(UsageError, match="KEY=V1,V2"):
        vary(text)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "a", "", "1,,2", "²"])
def test_batches_are_positive_whole_numbers(text):
    with pytest.raises(UsageError, match="positive whole numbers"):
        numbers(text, flag="--global-batch")


def test_lists_lose_repeats_and_unknown_words_are_refused():
    assert numbers("64,32,64", flag="--global-batch") == (32, 64)
    assert backends("gloo,nccl,gloo") == ("gloo", "nccl")
    assert scalings("both") == ("weak", "strong")
    with pytest.raises(UsageError, match="not known"):
        scalings("sideways")
    with pytest.raises(UsageError, match="list of backends"):
        backends("gloo,")


def test_more_workers_and_repeats_widen_a_study():
    wider = joined(HELD, {"workers": (2, 4), "repeats": 9}, workload=None)
    assert wider.workers == (1, 2, 4)
    assert wider.repeats == 9


def test_more_values_of_a_varied_flag_widen_a_study():
    assert joined(HELD, {"vary": (("--lr", ("0.2",)),)}, workload=None).vary == (("--lr", ("0.1", "0.2")),)


@pytest.mark.parametrize(
    "asked",
    [
        {"threads": 7},
        {"steps": 99},
        {"backends": ("gloo",)},
        {"vary": (("--other", ("1",)),)},
        {"per_worker_batch": (8,)},
    ],
)
def test_what_would_not_be_comparable_is_refused(asked):
    with pytest.raises(UsageError, match="would not be comparable"):
        joined(HELD, asked, workload=None)


def test_a_smaller_count_may_not_move_the_batches_that_were_derived_from_the_smallest():
    both = replace(HELD, workers=(2, 4), scaling=("weak", "strong"), per_worker_batch=(8,))
    assert joined(both, {"workers": (8,)}, workload=None).workers == (2, 4, 8)
    with pytest.raises(UsageError, match="fewer than 2 workers would not be comparable"):
        joined(both, {"workers": (1,)}, workload=None)


def test_another_script_or_other_args_are_refused():
    for other in (replace(HELD.workload, name="b.py"), replace(HELD.workload, args=())):
        with pytest.raises(UsageError, match=r"holds a study of train\.py --x 1"):
            joined(HELD, {}, workload=other)


def test_a_script_that_starts_its_own_workers_must_be_told_how_many():
    study = Study(Workload("script", "t.py", start="script"), workers=(1, 2))
    with pytest.raises(UsageError, match="starts its own workers"):
        checked(study)
    assert checked(replace(study, workload=replace(study.workload, args=("-n{workers}",))))
    assert checked(replace(study, workers=(2,)))


@pytest.mark.parametrize(
    "change", [{"repeats": 0}, {"steps": 2}, {"timeout_s": 0.0}, {"threads": 0}, {"workers": ()}]
)
def test_impossible_limits_are_refused(change):
    with pytest.raises(UsageError):
        checked(replace(HELD, **change))


def test_a_batch_that_the_scaling_does_not_use_is_refused():
    with pytest.raises(UsageError, match="--global-batch has no part in weak scaling"):
        checked(replace(HELD, per_worker_batch=(8,), global_batch=(8,)))


def test_text_that_cannot_be_recorded_is_refused():
    with pytest.raises(UsageError, match="not valid text"):
        checked(replace(HELD, workload=replace(HELD.workload, args=("\udcff",))))


def test_nodes_count_the_workers():
    assert checked(replace(HELD, nodes=(1, 4), workers_per_node=(2,))).workers == (2, 8)
    assert checked(replace(HELD, nodes=(1, 2))).workers_per_node == (1,)
    with pytest.raises(UsageError, match="on no number of nodes"):
        checked(replace(HELD, workers_per_node=(2,)))


def test_workers_are_counted_one_way_only():
    with pytest.raises(UsageError, match="both say how many workers"):
        refuse_both_counts({"workers": (1, 2), "nodes": (1, 2)})
    held = checked(replace(HELD, nodes=(1, 2), workers_per_node=(2,)))
    with pytest.raises(UsageError, match="both say how many workers"):
        joined(held, {"workers": (8,)}, workload=None)
    assert joined(held, {"nodes": (4,)}, workload=None).workers == (2, 4, 8)


def test_a_script_that_starts_its_own_workers_stays_on_one_node():
    alone = Study(Workload("script", "t.py", ("-n{workers}",), start="script"), nodes=(1, 2))
    with pytest.raises(UsageError, match="one node only, not on 2"):
        checked(alone)
    assert checked(replace(alone, nodes=(1,))).workers == (1,)
