"""Batches are counted per replica, from what loaders delivered and what entered the network."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.check.study import study_findings
from paceline.measure.profiles import curve, launches
from paceline.measure.strategy import replicas, strategies, weights_differ
from paceline.plan.trials import plan_study
from paceline.records import Communication, Exchange, Study, Workload
from tests.support.samples import WARMUP, result, sample, worker

STEPS = 20
KS = range(2, WARMUP + STEPS + 1)
TOGETHER = {"strategy": ["tp"], "replica": [0, 1]}


def study(workers=(1, 2), **asked):
    return Study(
        Workload("script", "t.py", batch_flag="-b"), workers=workers, warmup=WARMUP, steps=STEPS, **asked
    )


def worked(asked, manifests, **counts):
    """One launch per count of workers; `manifests` and each of `counts` by count, then by rank."""
    results = []
    for point in plan_study(asked).points:
        n = point.workers
        own = [
            worker(
                rank,
                [sample(k, 0.1, **{name: by[n][rank] for name, by in counts.items()}) for k in KS],
                n,
                **manifests[n][rank],
            )
            for rank in range(n)
        ]
        results.append(result(own, point=point))
    groups = launches(plan_study(asked).points, results, warmup=WARMUP, steps=STEPS)
    profiles = curve(groups)
    return profiles, {finding.id for finding in study_findings(groups, profiles)}


def everywhere(value):
    return {n: [value] * n for n in (1, 2, 4)}


def test_workers_that_share_one_replica_share_one_batch():
    manifests = everywhere({**TOGETHER, "batch_fingerprint": [1, 2, 3], "weights_checksum": None})
    (one, two), found = worked(study(), manifests, samples=everywhere(8))
    assert (one.point.global_batch, two.point.global_batch) == (8, 8)
    assert two.throughput_per_s.value == pytest.approx(80)
    assert two.speedup.value == pytest.approx(1.0)
    assert (two.replicas, two.strategy, two.point.scaling) == (1, "tp", "strong")
    assert found <= {"few-launches"}


def test_four_workers_in_two_replicas_consume_two_batches_and_are_compared_by_replica():
    pairs = {
        4: [
            {"replica": [rank // 2 * 2, rank // 2 * 2 + 1], "batch_fingerprint": [rank // 2, 7]}
            for rank in range(4)
        ]
    }
    (four,), found = worked(study((4,)), pairs, samples=everywhere(8))
    assert four.point.global_batch == 16
    assert (four.replicas, "same-data" in found) == (2, False)
    alike = {4: [{**manifest, "batch_fingerprint": [5, 7]} for manifest in pairs[4]]}
    assert "same-data" in worked(study((4,)), alike, samples=everywhere(8))[1]


def test_links_of_several_workers_make_one_replica():
    """Two stages of two tensor parallel workers each: nobody knows all four."""
    told = ([0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3])
    assert replicas([worker(rank, (), 4, replica=ranks) for rank, ranks in enumerate(told)]) == (
        (0, 1, 2, 3),
    )
    assert replicas([worker(rank, (), 2) for rank in range(2)]) == ((0,), (1,))


def test_what_one_worker_loads_for_all_is_not_multiplied():
    """Accelerate's dispatch: worker 0 loads the whole batch and sends each its part."""
    loads = {1: [64], 2: [64, None]}
    (one, two), found = worked(study(), everywhere({}), samples=loads)
    assert (one.point.global_batch, two.point.global_batch) == (64, 64)
    parts = {1: [64], 2: [32, 32]}
    more = {"entered": parts, "forwards": everywhere(1)}
    (one, two), found = worked(study(), everywhere({}), samples=loads, **more)
    assert (two.point.global_batch, two.point.per_worker_batch) == (64, 32)
    assert (two.point.scaling, two.speedup.value) == ("strong", pytest.approx(1.0))
    assert "batch-unseen" not in found


def test_a_global_batch_that_stays_while_workers_grow_is_strong_scaling_seen_from_the_forwards():
    """It divides its accumulation by the workers: no loader, 4 forwards and backwards alone, 2 each of two."""
    forwards, entered = {1: [4], 2: [2, 2]}, {1: [48], 2: [24, 24]}
    counts = {"samples": everywhere(None), "forwards": forwards, "backwards": forwards, "entered": entered}
    for asked in (study(), study(per_worker_batch=(12,))):
        (one, two), found = worked(asked, everywhere({}), **counts)
        assert (one.point.global_batch, two.point.global_batch) == (48, 48)
        assert (two.point.scaling, two.speedup.value) == ("strong", pytest.approx(1.0))
        assert found & {"batch-differs", "batch-unseen"} == set()


def test_a_batch_in_several_micro_steps_is_the_one_that_was_asked_for():
    (one,), found = worked(
        study((1,), per_worker_batch=(8,)), everywhere({}), samples=everywhere(24), backwards=everywhere(3)
    )
    assert (one.point.per_worker_batch, one.point.global_batch) == (24, 24)
    assert "batch-differs" not in found
    (one,), found = worked(study((1,), per_worker_batch=(8,)), everywhere({}), samples=everywhere(24))
    assert "batch-differs" in found


@pytest.mark.parametrize(
    ("loaded", "entered", "forwards", "backwards", "counted", "said"),
    [
        (32, 32, 1, 1, 32, False),
        (64, 32, 1, 1, 32, True),  # each worker keeps its part of what it loads
        (32, 64, 1, 1, 32, True),  # two views of every sample
        (32, 64, 2, 1, 32, False),  # the same samples through the network twice
        (64, 64, 4, 4, 64, False),  # in four micro-steps
        (None, 16, 1, 1, 16, False),  # no loader
    ],
)
def test_of_two_witnesses_the_smaller_count_is_believed_and_a_difference_is_said(
    loaded, entered, forwards, backwards, counted, said
):
    counts = {"samples": loaded, "entered": entered, "forwards": forwards, "backwards": backwards}
    (one,), found = worked(
        study((1,)), everywhere({}), **{name: everywhere(value) for name, value in counts.items()}
    )
    assert one.point.global_batch == counted
    assert ("batch-witnesses" in found) is said


def test_a_loader_that_delivers_item_by_item_is_no_witness():
    manifests = everywhere({"loader": {"batch_size": None, "batched": False}})
    counts = {"samples": 5, "entered": 16, "forwards": 1}
    (one,), found = worked(
        study((1,)), manifests, **{name: everywhere(value) for name, value in counts.items()}
    )
    assert one.point.global_batch == 16
    assert "batch-witnesses" not in found


def test_ids_are_counted_once_per_replica():
    ids = {"entered": everywhere(4), "forwards": everywhere(1), "tokens": everywhere(512)}
    (_, two), _ = worked(study(), everywhere({}), samples=everywhere(4), **ids)
    assert two.tokens_per_s.value == pytest.approx(2 * 512 / 0.1)
    (_, two), _ = worked(study(), everywhere(TOGETHER), samples=everywhere(4), **ids)
    assert two.tokens_per_s.value == pytest.approx(512 / 0.1)
    (_, two), _ = worked(study(), everywhere({}), samples=everywhere(4))
    assert two.tokens_per_s is None


def sent(op, phase="other", peer=None):
    of = Communication(op, "0", (0, 1), 0, 4096, "float32", phase, peer, 0 if peer is not None else None)
    return (Exchange(0.0, 0.0, of),)


def by_hand(exchanges, *, losses=(0.5, 0.5), **manifest):
    return [
        replace(
            worker(
                rank,
                [sample(2, 0.1, exchanges=exchanges[rank], loss=losses[rank])],
                strategy=["hand-written"],
            ),
            manifest={
                **worker(rank, ()).manifest,
                "strategy": ["hand-written"],
                "weights_checksum": 1.0 + rank,
                **manifest,
            },
        )
        for rank in range(2)
    ]


MESSAGES = [sent("send", peer=1), sent("recv", peer=0)]
FROM_GRADIENTS = (None, 0.5)  # the first stage's backward begins from no loss


def test_stages_written_by_hand_are_one_replica_and_equal_copies_are_not():
    stages = by_hand(MESSAGES, losses=FROM_GRADIENTS)
    assert (strategies(stages), replicas(stages)) == (("pp",), ((0, 1),))
    copies = by_hand(MESSAGES, losses=FROM_GRADIENTS, weights_checksum=1.0)
    assert (strategies(copies), replicas(copies)) == (("hand-written",), ((0,), (1,)))


def test_workers_that_send_gradients_by_messages_are_no_stages():
    """A parameter server: every worker has a loss of its own, and weights that do not agree at every moment."""
    served = by_hand(MESSAGES)
    assert (strategies(served), replicas(served)) == (("hand-written",), ((0,), (1,)))


def test_experts_spread_by_hand_have_a_batch_on_each_worker_and_differ_by_design():
    experts = by_hand([sent("all_to_all", "forward")] * 2, batch_fingerprint=[1, 2])
    assert (strategies(experts), replicas(experts)) == (("ep",), ((0,), (1,)))
    assert weights_differ(experts) is None


def test_tensors_split_by_hand_are_one_replica_where_both_see_the_same_data():
    whole = by_hand([sent("all_reduce", "forward")] * 2, batch_fingerprint=[1, 2])
    assert (strategies(whole), replicas(whole)) == (("tp",), ((0, 1),))
    apart = by_hand([sent("all_reduce", "backward")] * 2, batch_fingerprint=[1, 2])
    assert strategies(apart) == ("hand-written",)


@pytest.mark.parametrize(("other", "name"), [(0.0, "tp"), (0.01, "hand-written")])
def test_where_no_batch_has_a_mark_losses_that_are_one_number_tell_that_they_are_the_same(other, name):
    sends = sent("all_reduce", "forward")
    workers = by_hand([sends] * 2, batch_fingerprint=[])
    losses = [
        replace(w, samples=tuple(sample(k, 0.1, exchanges=sends, loss=1 / k + w.rank * other) for k in KS))
        for w in workers
    ]
    assert strategies(losses) == (name,)
