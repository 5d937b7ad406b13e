"""What-ifs: one thing changed in a fitted law, and what must follow whatever the numbers are."""

import numpy as np
import pytest

from paceline.analysis.outlook import outlook
from paceline.analysis.question import Ask, Cluster
from paceline.analysis.table import table_analysis
from paceline.core.errors import UsageError
from paceline.links.belief import LinkBelief
from paceline.predict.fit import fit_law
from paceline.predict.observations import observe
from paceline.predict.step_law import NAMES, STRUCTURES, Overlap, Practice, Rows, terms
from paceline.predict.whatif import Change, change_from, changed_law
from paceline.records import BucketReady, Estimate, Point, Profile
from paceline.table.read import read_table

_BETWEEN = LinkBelief(1e9, 0.3, 1e-4, 0.5, "declared")


def _profile(workers, step_s, **more):
    point = Point(f"w{workers}", workers, 1, 32, 32 * workers)
    return Profile(point, "ok", None, 1, step_s=Estimate(step_s), **more)


_BUCKETS = {
    "buckets": (BucketReady(10_000_000, 0.04), BucketReady(10_000_000, 0.06), BucketReady(20_000_000, 0.08)),
    "backward_end_s": 0.08,
    "exchanged_bytes_per_step": Estimate(40e6),
    "optimizer_s": Estimate(0.02),
}
_SEEN = [_profile(1, 0.10, **_BUCKETS), _profile(2, 0.15, **_BUCKETS), _profile(4, 0.17, **_BUCKETS)]
_UNSEEN = [_profile(1, 0.10), _profile(2, 0.15), _profile(4, 0.17)]


def _projected(profiles, *words, workers=8, cluster=None):
    ask = Ask(project_to=(workers,), change=change_from(words))
    return outlook(profiles, "step", cluster=cluster, ask=ask)


def _step(profiles, *words, workers=8):
    return _projected(profiles, *words, workers=workers).projections[0].time_s.value


def _rate(profiles, *words):
    return _projected(profiles, *words).projections[0].throughput_per_s.value


@pytest.mark.parametrize("profiles", [_SEEN, _UNSEEN], ids=["buckets", "no buckets"])
@pytest.mark.parametrize("word", ["link=2x", "bytes=0.5", "power-sgd=2@1000x1000"])
def test_less_to_move_or_more_room_to_move_it_is_never_slower(profiles, word):
    assert _step(profiles, word) <= _step(profiles)


@pytest.mark.parametrize("profiles", [_SEEN, _UNSEEN], ids=["buckets", "no buckets"])
@pytest.mark.parametrize("word", ["link=0.5x", "fsdp", "sync-bn=50"])
def test_more_to_move_or_more_collectives_are_never_faster(profiles, word):
    assert _step(profiles, word) > _step(profiles)


def test_half_the_bytes_are_twice_the_link():
    assert _step(_SEEN, "bytes=0.5") == pytest.approx(_step(_SEEN, "link=2x"))


@pytest.mark.parametrize("word", ["link=9x", "bytes=0.01", "fsdp", "sync-bn=99", "bucket=8x"])
def test_one_worker_exchanges_nothing_so_nothing_changes(word):
    law = fit_law(observe(_UNSEEN, "step"), members=4)
    changed = changed_law(law, change_from([word]))
    rows = Rows(
        *(np.ones(1) for _ in range(3)), *(np.zeros(1, np.intp) for _ in range(2)), np.zeros(1), np.ones(1)
    )
    for before, after in zip(law.members, changed.members, strict=True):
        expected = terms(before.theta, rows, before.structure)
        found = terms(after.theta, rows, after.structure, None, changed.practice)
        assert [float(t[0, 0]) for t in found] == pytest.approx([float(t[0, 0]) for t in expected])


def test_accumulation_adds_forward_and_backward_passes_and_no_exchange():
    theta = np.full((1, len(NAMES) + 1), -20.0)
    for name, value in (("x_i", 0.05), ("t_ref", 0.1), ("a_i", 1e-9)):
        theta[0, NAMES.index(name)] = np.log(value)
    theta[0, -1] = 0.0
    workers = np.array([8.0])
    zero = np.zeros(1, np.intp)
    rows = Rows(workers, np.ones(1), np.ones(1), zero, zero, np.zeros(1), np.ones(1))
    once = terms(theta, rows, STRUCTURES[0])
    often = terms(theta, rows, STRUCTURES[0], None, Practice(micro_steps=4, repeated_ratio=0.8))
    assert often[0][0, 0] == pytest.approx(0.1 + 3 * 0.8 * 0.1)
    assert often[1][0, 0] == pytest.approx(once[1][0, 0])


def test_accumulation_makes_steps_longer_and_samples_cheaper():
    assert _step(_SEEN, "accumulate=4") > 3 * 0.08
    assert _rate(_SEEN, "accumulate=4") > _rate(_SEEN)
    text = "workers,per_worker_batch,samples,epoch_s\n1,32,64000,200\n2,32,64000,130\n4,32,64000,80\n"

    def epoch(*words):
        ask = Ask(project_to=(8,), change=change_from(words))
        return table_analysis(read_table(text), ask=ask).projections[0]

    assert epoch("accumulate=4").time_s.value < epoch().time_s.value
    assert epoch("accumulate=4").step_s.value > 2 * epoch().step_s.value


def test_sync_bn_costs_in_proportion_to_its_layers():
    none, some, more = (_step(_UNSEEN, *words) for words in ([], ["sync-bn=20"], ["sync-bn=40"]))
    assert more - none == pytest.approx(2 * (some - none), rel=0.2)


def test_one_large_bucket_cannot_start_before_the_end_of_backward():
    law = fit_law(observe(_SEEN, "step"), members=2)
    changed = changed_law(law, Change(bucket_ratio=100.0)).observed.overlap
    assert list(changed.tail_share) == [1.0]
    assert changed.ready_ratio[-1] == pytest.approx(law.observed.overlap.ready_ratio[-1])


def test_smaller_buckets_hold_the_same_bytes_and_are_ready_in_order():
    law = fit_law(observe(_SEEN, "step"), members=2)
    changed = changed_law(law, Change(bucket_ratio=0.25)).observed.overlap
    assert len(changed.tail_share) == 12
    assert changed.tail_share[0] == 1.0
    assert np.all(np.diff(changed.tail_share) < 0)
    assert np.all(np.diff(changed.ready_ratio) > 0)


def test_buckets_end_as_if_sent_one_after_the_other():
    """The closed form of the law against the queue itself: E_j = max(R_j, E_{j−1}) + c_j."""
    overlap = Overlap(np.array([0.2, 0.5, 0.9]), 0.95, np.array([1.0, 0.6, 0.1]))
    theta = np.full((1, len(NAMES) + 1), -30.0)
    theta[0, NAMES.index("x_i")], theta[0, NAMES.index("t_ref")], theta[0, -1] = 0.0, 0.0, 0.0
    zero = np.zeros(1, np.intp)
    rows = Rows(np.array([2.0]), np.ones(1), np.ones(1), zero, zero, np.zeros(1), np.ones(1))
    end = 0.0
    for ready, size in ((0.2, 0.4), (0.5, 0.5), (0.9, 0.1)):
        end = max(ready, end) + size
    assert terms(theta, rows, STRUCTURES[0], overlap)[1][0, 0] == pytest.approx(end - 0.95)


def test_workers_placed_on_nodes_never_measured_are_refused_until_their_link_is_declared():
    refused = _projected(_SEEN, "workers-per-node=2")
    assert [r.rule for r in refused.refusals] == ["link-class"]
    allowed = _projected(_SEEN, "workers-per-node=2", cluster=Cluster(between=_BETWEEN))
    assert allowed.projections[0].nodes == 4


def test_a_what_if_says_what_it_gains_and_leaves_advice_to_the_training_as_it_is():
    found = _projected(_SEEN, "link=4x")
    assert "the speed without the change" in found.projections[0].explanation
    assert found.recommendations == ()
    assert _projected(_SEEN).recommendations


def test_changes_add_up():
    assert change_from(["link=2x", "link=2", "accumulate=4"]) == Change(link_ratio=4.0, micro_steps=4)
    assert change_from([]) == Change()
    assert change_from(["power-sgd=4@512x512"]).bytes_ratio == pytest.approx(4 * 1024 / 512**2)


@pytest.mark.parametrize(
    "word", ["", "link", "link=0", "link=fast", "bytes=-1", "accumulate=0", "accumulate=1.5", "speed=2x",
             "power-sgd=4", "power-sgd=99@10x10", "fsdp=2", "bucket=nan"],
)  # fmt: skip
def test_what_is_not_a_what_if_is_refused(word):
    with pytest.raises(UsageError):
        change_from([word])
