"""Study -> Points -> Trials."""

from dataclasses import replace

import pytest

from paceline.core.errors import UsageError
from paceline.plan.config import with_args_batch
from paceline.plan.trials import plan_study, points_of, trial_args, with_flag
from paceline.records import Study, Workload

SCRIPT = Workload("script", "train.py", batch_flag="--batch-size")
STUDY = Study(SCRIPT, workers=(1, 2, 4))


def batches(study):
    return [(p.workers, p.per_worker_batch, p.global_batch) for p in points_of(study)]


def test_weak_scaling_keeps_the_per_worker_batch():
    assert batches(replace(STUDY, per_worker_batch=(32,))) == [(1, 32, 32), (2, 32, 64), (4, 32, 128)]


def test_strong_scaling_keeps_the_global_batch():
    assert batches(replace(STUDY, scaling=("strong",), global_batch=(64,))) == [
        (1, 64, 64),
        (2, 32, 64),
        (4, 16, 64),
    ]


def test_both_scalings_begin_at_the_same_batch():
    points = points_of(replace(STUDY, scaling=("weak", "strong"), per_worker_batch=(32,)))
    assert {p.per_worker_batch for p in points if p.workers == 1} == {32}
    assert len({p.id for p in points}) == len(points) == 6


def test_a_global_batch_that_does_not_divide_is_refused_with_one_that_does():
    with pytest.raises(UsageError, match="64 cannot be divided among 3") as refusal:
        plan_study(replace(STUDY, workers=(1, 3), scaling=("strong",), global_batch=(64,)))
    assert "--global-batch 63" in refusal.value.hint


def test_no_batch_asked_is_a_batch_unknown():
    assert batches(STUDY) == [(1, None, None), (2, None, None), (4, None, None)]


def test_strong_scaling_of_a_script_takes_the_batch_from_its_own_flag():
    workload = replace(SCRIPT, args=("--batch-size", "64"), batch_flag=None)
    study = with_args_batch(Study(workload, workers=(1, 2), scaling=("strong",)))
    assert batches(study) == [(1, 64, 64), (2, 32, 64)]
    assert plan_study(study).trials[1].args == ("--batch-size", "32")


def test_strong_scaling_without_any_batch_is_refused():
    with pytest.raises(UsageError, match="strong scaling divides a global batch"):
        plan_study(replace(STUDY, scaling=("strong",)))


def test_repeats_are_interleaved_and_alternate_their_direction():
    trials = plan_study(replace(STUDY, repeats=3)).trials
    assert [t.point.workers for t in trials] == [1, 2, 4, 4, 2, 1, 1, 2, 4]
    assert len({t.id for t in trials}) == 9


def test_points_are_the_product_of_everything_asked():
    asked = replace(STUDY, backends=("gloo", "nccl"), vary=(("--depth", ("1", "2")), ("-k", ("a", "b", "c"))))
    assert len(points_of(asked)) == 3 * 2 * 2 * 3


@pytest.mark.parametrize(
    ("before", "flag", "after"),
    [
        (("--b", "1", "x"), "--b", ("--b", "9", "x")),
        (("--b=1",), "--b", ("--b=9",)),
        (("-b", "1"), "-b", ("-b", "9")),
        (("-b1",), "-b", ("-b9",)),
        (("--bar", "1"), "--b", ("--bar", "1", "--b", "9")),
        ((), "--b", ("--b", "9")),
        (("--b", "1", "--b=2"), "--b", ("--b", "9", "--b=9")),
    ],
)
def test_a_flag_is_replaced_in_the_form_it_has_or_added(before, flag, after):
    assert with_flag(before, flag, "9") == after


@pytest.mark.parametrize(
    ("before", "flag", "after"),
    [
        (("train.batch_size=4", "seed=1"), "--train.batch_size", ("train.batch_size=9", "seed=1")),
        (("+train.batch_size=4",), "--train.batch_size", ("+train.batch_size=9",)),
        (("--config-name", "big", "batch_size=4"), "--batch_size", ("--config-name", "big", "batch_size=9")),
        (("seed=1",), "--train.batch_size", ("seed=1", "train.batch_size=9")),
        (("--env", "A=1"), "--batch-size", ("--env", "A=1", "--batch-size", "9")),
        ((), "train.batch_size", ("train.batch_size=9",)),
        ((), "--batch-size", ("--batch-size", "9")),
    ],
)
def test_a_key_is_assigned_where_the_script_is_told_so(before, flag, after):
    """As Hydra has it: key=value."""
    assert with_flag(before, flag, "9") == after


def test_the_setting_that_both_scalings_share_is_launched_once():
    asked = replace(STUDY, scaling=("weak", "strong"), per_worker_batch=(32,), repeats=2)
    plan = plan_study(asked)
    assert [p.id for p in plan.points] == ["w1-b32", "w2-b32", "w4-b32", "w1-g32", "w2-g32", "w4-g32"]
    assert [t.id for t in plan.trials] == [
        *("w1-b32-1", "w2-b32-1", "w4-b32-1", "w2-g32-1", "w4-g32-1"),
        *("w4-g32-2", "w2-g32-2", "w4-b32-2", "w2-b32-2", "w1-b32-2"),
    ]


def test_only_our_placeholders_are_filled_in():
    workload = Workload(
        "script", "t.py", ("{workers}x{global_batch}", '{"a": {lr}}', "{other}", "{}", "{per_worker_batch}")
    )
    study = Study(workload, workers=(4,), per_worker_batch=(8,), lr=0.1)
    assert trial_args(study, points_of(study)[0]) == ("4x32", '{"a": 0.1}', "{other}", "{}", "8")


def test_a_placeholder_without_a_value_is_refused():
    with pytest.raises(UsageError, match=r"needs a value for \{lr\}"):
        plan_study(Study(Workload("script", "t.py", ("--rate={lr}",))))


def test_a_batch_that_the_script_is_never_told_is_refused():
    with pytest.raises(UsageError, match="the script is not given it"):
        plan_study(Study(Workload("script", "t.py"), per_worker_batch=(8,)))


def test_hostile_values_give_distinct_and_harmless_folder_names():
    values = ("a/../b", "a b", "a_b", "$(rm)", "é", "x" * 300, "x" * 301)
    ids = [p.id for p in points_of(replace(STUDY, workers=(1,), vary=(("--v", values),)))]
    assert len(set(ids)) == len(values)
    assert all(
        set(i) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._=+-") for i in ids
    )
    assert max(map(len, ids)) < 100


def test_the_price_counts_every_worker_of_every_trial():
    plan = plan_study(replace(STUDY, repeats=2))
    assert plan.device_s == pytest.approx(plan.wall_s / 6 * 2 * (1 + 2 + 4))


def test_workers_are_nodes_times_workers_per_node():
    points = points_of(replace(STUDY, nodes=(1, 2), workers_per_node=(1, 2)))
    assert [(p.nodes, p.workers) for p in points] == [(1, 1), (1, 2), (2, 2), (2, 4)]
    assert [p.id for p in points] == ["n1-w1", "n1-w2", "n2-w2", "n2-w4"]


def test_a_global_batch_is_divided_among_the_workers_of_all_nodes():
    asked = replace(STUDY, nodes=(1, 2), workers_per_node=(2,), scaling=("strong",), global_batch=(64,))
    assert batches(asked) == [(2, 32, 64), (4, 16, 64)]
