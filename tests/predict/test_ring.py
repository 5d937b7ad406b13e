"""What a profile of one worker and a probe of two foresee over gloo: a ring, bucket by bucket. Sums done by hand."""

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from paceline.analysis.outlook import outlook
from paceline.analysis.question import Ask, Cluster
from paceline.core.stats import t_quantile
from paceline.links.fit import link_from_probe
from paceline.predict.whatif import change_from
from paceline.records import BucketReady, Estimate, LinkProbe, Point, ProbeTime, Profile, Setting

MB = 1_000_000
STEP_S = 0.4  # 0.1 forward, 0.2 backward, 0.1 after it
LINK = LinkProbe(
    "between", "gloo", 2, 2, Estimate(0.0005, 0.0004, 0.0006, 9), Estimate(10.0 * MB, 9.9 * MB, 10.1 * MB, 9)
)


def profile(*buckets, backend="gloo", cpu_ratio=0.1):
    """One worker; buckets of (megabytes, ready)."""
    size = sum(megabytes for megabytes, _ in buckets) * MB
    return Profile(
        Point("w1", 1, per_worker_batch=8, global_batch=8, backend=backend),
        "ok",
        None,
        trials=3,
        step_s=Estimate(STEP_S, 0.399, 0.401, 3),
        compute_s=Estimate(STEP_S, 0.399, 0.401, 3),
        exchanged_bytes_per_step=Estimate(float(size)),
        buckets=tuple(BucketReady(round(megabytes * MB), ready) for megabytes, ready in buckets),
        backward_end_s=0.3,
        cpu_ratio=Estimate(cpu_ratio),
    )


def predicted(one, nodes, probes=(LINK,), change=None, workers=None, jitter=()):
    ask = Ask(
        at=((Setting(workers or nodes, nodes, 8), ()),), **({} if change is None else {"change": change})
    )
    cluster = Cluster(backend=one.point.backend, probes=probes, jitter=jitter)
    (found,) = outlook([one], cluster=cluster, ask=ask).projections
    return found.time_s


@pytest.mark.parametrize("nodes", [2, 4, 8, 16])
def test_one_bucket_at_the_end_costs_one_ring(nodes):
    ring_s = 0.0005 + 2 * (nodes - 1) / nodes * 4 / 10  # all other hops pass while parts are sent
    assert predicted(profile((4.0, 0.3)), nodes).value == pytest.approx(STEP_S + ring_s, rel=0.015)


@pytest.mark.parametrize("nodes", [2, 4])
def test_what_leaves_early_hides_under_what_is_still_computed(nodes):
    # 1 MB leaves at 0.15 s and is gone before 0.3 s at 2 nodes; only the last 0.5 MB shows
    share = 2 * (nodes - 1) / nodes / 10
    first, last = 0.0005 + share * 1.0, 0.0005 + share * 0.5
    exposed_s = max(0.15 + first, 0.3) + last - 0.3
    found = predicted(profile((1.0, 0.15), (0.5, 0.3)), nodes)
    assert found.value == pytest.approx(STEP_S + exposed_s, rel=0.02)


@pytest.mark.parametrize(
    ("busy", "buckets", "hidden_s"),
    [
        (1.0, ((1.0, 0.15), (0.5, 0.3)), 0.1),  # of 0.15 s of exchange the last 0.05 s show
        (1.0, ((1.5, 0.3),), 0.0),  # nothing hides
        (0.6, ((1.0, 0.15), (0.5, 0.3)), 0.0),  # cores for both
        (0.8, ((1.0, 0.15), (0.5, 0.3)), 0.05),  # cores for half of it
    ],
)
def test_what_hides_takes_its_share_of_busy_cores(busy, buckets, hidden_s):
    carrying = replace(LINK, cores_s_per_byte=0.4 / (10.0 * MB))  # two fifths of the cores while it moves
    one = profile(*buckets, cpu_ratio=busy)
    without, with_it = predicted(one, 2).value, predicted(one, 2, (carrying,)).value
    assert with_it - without == pytest.approx(0.55 * 0.4 * hidden_s, abs=0.0008)


def test_what_computing_loses_costs_nothing_while_an_early_bucket_is_still_sent():
    """4 MB leave at 0.15 s and are sent until 0.55 s: backward may end at 0.3 s or later."""
    carrying = replace(LINK, cores_s_per_byte=0.4 / (10.0 * MB))
    early = profile((4.0, 0.15), (0.01, 0.3), cpu_ratio=1.0)
    assert predicted(early, 2, (carrying,)).value == pytest.approx(predicted(early, 2).value, abs=0.0008)


def test_what_busy_cores_lose_is_not_known_well_and_the_interval_says_so():
    carrying = replace(LINK, cores_s_per_byte=0.4 / (10.0 * MB))
    busy, free = (profile((1.0, 0.15), (0.5, 0.3), cpu_ratio=ratio) for ratio in (1.0, 0.55))
    without, with_it = predicted(busy, 2), predicted(busy, 2, (carrying,))
    halves = [np.log(found.high / found.low) / 2 for found in (without, with_it)]
    lost_sd = 0.73 * np.log(with_it.value / without.value)
    # sixteen evenly spread quantiles stand for a normal one, and the outermost of them hold an eighth
    normal, outermost = 1.645, -NormalDist().inv_cdf(0.5 / 16) / 0.961
    assert np.hypot(halves[0], normal * lost_sd) <= halves[1] <= np.hypot(halves[0], outermost * lost_sd)
    assert predicted(free, 2, (carrying,)) == predicted(free, 2)


def with_buffers(size, one=None):
    """A step that exchanges so many megabytes beside its buckets."""
    one = one or profile((1.0, 0.3))
    whole = one.exchanged_bytes_per_step.value + size * MB
    return replace(one, exchanged_bytes_per_step=Estimate(whole))


@pytest.mark.parametrize(("nodes", "rounds"), [(2, 1), (3, 2), (4, 2), (8, 3)])
def test_buffers_are_broadcast_before_every_forward_in_a_tree(nodes, rounds):
    more_s = predicted(with_buffers(0.4), nodes).value - predicted(profile((1.0, 0.3)), nodes).value
    assert more_s == pytest.approx(rounds * (0.0005 + 0.4 / 10), rel=0.02)


def test_half_precision_of_gradients_leaves_buffers_as_they_are_and_a_faster_link_does_not():
    plain = profile((1.0, 0.3))
    for change, broadcast_s in (("bytes=0.5", 0.04), ("link=2x", 0.02)):
        times = [predicted(one, 4, change=change_from([change])).value for one in (with_buffers(0.4), plain)]
        assert times[0] - times[1] == pytest.approx(2 * (0.0005 + broadcast_s), rel=0.03)


def test_the_backend_that_workers_saw_counts_as_one_that_a_point_names():
    named = with_buffers(0.4, profile((1.0, 0.15), (1.0, 0.3)))
    silent = replace(named, point=replace(named.point, backend=None))
    ask, cluster = Ask(at=((Setting(8, 8, 8), ()),)), Cluster(backend="gloo", probes=(LINK,))
    found, same = (outlook([one], cluster=cluster, ask=ask).projections[0].time_s for one in (silent, named))
    assert found == same


def test_a_metric_now_and_then_is_no_broadcast():
    few, none = predicted(with_buffers(50 / MB), 4), predicted(profile((1.0, 0.3)), 4)
    assert few.value == pytest.approx(none.value, rel=1e-4)
    assert predicted(with_buffers(0.0), 1).value == pytest.approx(
        predicted(with_buffers(0.4), 1).value, rel=1e-3
    )


def test_what_is_exchanged_beside_buckets_counts_with_them_over_nccl():
    link = replace(LINK, backend="nccl")
    found = predicted(with_buffers(0.5, profile((1.0, 0.3), backend="nccl")), 8, (link,))
    same = predicted(profile((1.5, 0.3), backend="nccl"), 8, (link,))
    assert found.value == pytest.approx(same.value, rel=0.001)


def test_half_the_bytes_and_a_faster_link_take_what_they_carry():
    carrying = replace(LINK, cores_s_per_byte=0.4 / (10.0 * MB))
    one = profile((1.0, 0.15), (0.5, 0.3), cpu_ratio=1.0)
    for change, carried in (("bytes=0.5", 0.5), ("link=2x", 1.0)):
        without, with_it = (
            predicted(one, 2, (link,), change_from([change])).value for link in (LINK, carrying)
        )
        shown = 0.05 / 2 / (0.15 / 2)  # of the exchange: twice as fast either way
        assert with_it - without == pytest.approx(0.55 * 0.4 * 0.15 * carried * (1 - shown), abs=0.0008)


BUSY = replace(LINK, busy_hop_s=Estimate(0.1))  # two hops of 0.1 s longer where one ring takes 0.1 s


@pytest.mark.parametrize(
    ("busy", "buckets", "shown_s"),
    [
        (1.0, ((1.0, 0.15),), 0.0374),  # 0.1005 s take 0.2388 s beside computing: 0.15 s do 0.0631 s of it
        (1.0, ((1.0, 0.3),), 0.1005),  # nothing beside computing
        (1.0, ((0.2, 0.1),), 0.0006),  # mostly hops: 0.0205 s take 0.2073 s, and backward 0.2 s
        (0.1, ((1.0, 0.15),), 0.0),  # nobody computes for nine tenths of the time
    ],
)
def test_a_hop_beside_computing_takes_as_much_longer_as_was_probed(busy, buckets, shown_s):
    one = profile(*buckets, cpu_ratio=busy)
    assert predicted(one, 2, (BUSY,)).value - STEP_S == pytest.approx(shown_s, abs=0.002)
    before_s = max(0.0, 0.0005 + 0.1 * buckets[0][0] - (0.3 - buckets[0][1]))
    assert predicted(one, 2).value - STEP_S == pytest.approx(before_s, abs=0.002)


def test_what_a_hop_takes_longer_among_more_hosts_is_not_known_well_and_the_interval_says_so():
    one = profile((1.0, 0.15), cpu_ratio=1.0)
    without, with_it = predicted(one, 2), predicted(one, 2, (BUSY,))
    halves = [np.log(found.high / found.low) / 2 for found in (without, with_it)]
    longer_sd = 0.5 * np.log(with_it.value / without.value)
    assert np.hypot(halves[0], 1.5 * longer_sd) <= halves[1] <= np.hypot(halves[0], 2.5 * longer_sd)


def test_half_as_many_rounds_again_are_as_many_hops_that_take_longer():
    """1.5 times bytes and rounds: 0.1507 s take 0.3583 s beside computing; with as many hops as before, 0.274 s."""
    one = profile((1.0, 0.15), cpu_ratio=1.0)
    found = predicted(one, 2, (BUSY,), change_from(["fsdp"])).value
    assert found - STEP_S == pytest.approx(0.1507 - 0.15 * 0.1507 / 0.3583, abs=0.004)


FAR = LinkProbe(
    "between", "gloo", 2, 2, Estimate(0.01, 0.0099, 0.0101, 9), Estimate(10.0 * MB, 9.9 * MB, 10.1 * MB, 9)
)


@pytest.mark.parametrize("nodes", [4, 8])
@pytest.mark.parametrize("count", [1, 2, 8, 9])
def test_small_buckets_pay_their_hops_two_at_a_time(nodes, count):
    buckets = [(0.001, 0.3)] * count
    turns = (count + 1) // 2  # gloo has two exchanges under way
    expected_s = STEP_S + turns * 2 * (nodes - 1) * 0.01
    assert predicted(profile(*buckets), nodes, (FAR,)).value == pytest.approx(expected_s, rel=0.02)


@pytest.mark.parametrize("nodes", [4, 8])
def test_of_latency_and_movement_of_one_ring_the_longer_counts(nodes):
    hops_s = 2 * (nodes - 1) * 0.01
    for megabytes in (0.01, 4.0):
        moved_s = 2 * (nodes - 1) / nodes * megabytes / 10
        found = predicted(profile((megabytes, 0.3)), nodes, (FAR,))
        assert found.value == pytest.approx(STEP_S + max(hops_s, moved_s), rel=0.025)


def test_where_latency_and_movement_both_count_less_is_sure():
    one, both = (
        predicted(profile((size, 0.3)), 4, (FAR,)) for size in (0.01, 0.4)
    )  # 60 ms of hops; 1.5, 60 ms to move
    assert both.value == pytest.approx(one.value, rel=0.05)
    assert both.high - both.low > 1.2 * (one.high - one.low)


def test_over_gloo_the_smallest_message_tells_the_latency():
    """A ring of two with hops of 6 ms: messages that take longer to move hide one of its two hops."""
    sizes = (1_000, 10_000, 100_000, 1_000_000, 4_000_000)
    times = [
        ProbeTime("gloo", "all_reduce", 2, 2, size, repeat, max(0.012, 0.006 + size / 10e6))
        for size in sizes
        for repeat in range(3)
    ]
    found = link_from_probe(times)
    assert found.latency_s.value == pytest.approx(0.006, rel=0.02)
    assert found.bytes_per_s.value == pytest.approx(10e6, rel=0.02)


def named(one, nodes, link):
    ask = Ask(at=((Setting(nodes, nodes, 8), ()),))
    (found,) = outlook([one], cluster=Cluster(backend="gloo", probes=(link,)), ask=ask).projections
    return found.explanation


def test_what_binds_is_what_the_exchange_would_cost_by_itself():
    many = profile(*[(0.01, 0.3)] * 8)  # 4 turns of 60 ms, and 12 ms to move
    assert "the latency of the links between nodes is the limit" in named(many, 4, FAR)
    assert "the rate of the links between nodes is the limit" in named(profile((4.0, 0.3)), 4, FAR)
    assert "computing is the limit" in named(profile((0.01, 0.1)), 4, LINK)


def late_pair(late_s):
    """Two workers on two nodes, one of which computes so much longer; 1 MB at the end of backward takes 0.1 s."""
    step_s = STEP_S + late_s + 0.1005
    return Profile(
        Point("n2", 2, 2, per_worker_batch=8, global_batch=16, backend="gloo"),
        "ok",
        None,
        trials=3,
        step_s=Estimate(step_s, step_s - 0.001, step_s + 0.001, 3),
        compute_s=Estimate(STEP_S),
        exposed_s=Estimate(step_s - STEP_S),
        own_s_by_worker=(STEP_S, STEP_S + late_s),
        cpu_ratio=Estimate(0.1),
    )


@pytest.mark.parametrize("nodes", [4, 8])
def test_a_worker_that_is_late_among_two_is_as_late_among_more(nodes):
    profiles = [profile((1.0, 0.3)), late_pair(0.2)]
    ask = Ask(at=((Setting(nodes, nodes, 8), ()),))
    (found,) = outlook(profiles, cluster=Cluster(backend="gloo", probes=(LINK,)), ask=ask).projections
    ring_s = 2 * (nodes - 1) / nodes * 0.1
    assert found.time_s.value == pytest.approx(STEP_S + 0.2 + ring_s, rel=0.02)
    assert "waiting for the slowest is the limit" in found.explanation


def test_a_worker_that_is_a_little_slower_is_no_late_worker():
    profiles = [profile((1.0, 0.3)), late_pair(0.008)]
    ask = Ask(at=((Setting(4, 4, 8), ()),))
    (found,) = outlook(profiles, cluster=Cluster(backend="gloo", probes=(LINK,)), ask=ask).projections
    assert "rate of the links between nodes is the limit" in found.explanation


def test_where_computing_keeps_the_cores_busy_the_exchange_is_less_sure():
    free, busy = (predicted(profile((4.0, 0.3), cpu_ratio=ratio), 4) for ratio in (0.1, 0.9))
    assert busy.high - busy.low > 2 * (free.high - free.low)
    assert busy.value == pytest.approx(free.value, rel=0.01)


def test_one_launch_that_says_nothing_of_its_scatter_is_believed_less():
    sure = predicted(profile((4.0, 0.3)), 4)
    alone = replace(profile((4.0, 0.3)), step_s=Estimate(STEP_S), compute_s=Estimate(STEP_S))
    unsure = predicted(alone, 4)
    assert (unsure.high - unsure.low) > 1.3 * (sure.high - sure.low)


def test_buckets_that_were_seen_on_a_link_that_was_probed_leave_less_to_guess():
    seen = predicted(profile((4.0, 0.3)), 4)
    other = LinkProbe("between", "nccl", 2, 2, LINK.latency_s, LINK.bytes_per_s)
    over_nccl = predicted(profile((4.0, 0.3), backend="nccl"), 4, (other,))
    assert seen.high / seen.low < 1.2 < over_nccl.high / over_nccl.low


def test_two_workers_on_a_node_are_guessed_as_widely_as_before():
    """Neighbours share cores and memory: what the laboratory proved is about hosts of their own."""
    inside = LinkProbe(
        "inside", "gloo", 2, 1, LINK.latency_s, Estimate(1000.0 * MB, 990.0 * MB, 1010.0 * MB, 9)
    )
    apart = predicted(profile((4.0, 0.3)), 4)
    together = predicted(profile((4.0, 0.3)), 2, (inside, LINK), workers=4)
    assert together.high / together.low > 1.2 * apart.high / apart.low


def test_where_only_links_between_nodes_are_known_every_worker_gets_a_node():
    found = outlook([profile((4.0, 0.3))], cluster=Cluster(probes=(LINK,)), ask=Ask(project_to=(4, 8)))
    assert [(p.workers, p.nodes) for p in found.projections] == [(4, 4), (8, 8)]


def test_two_nodes_are_no_special_case_for_gloo():
    two = Profile(
        Point("n2", 2, 2, per_worker_batch=8, global_batch=16, backend="gloo"), "ok", None, 3, Estimate(0.8)
    )
    found = outlook([profile((4.0, 0.3)), two], ask=Ask(project_to=(4,)))
    assert "two-nodes-only" not in {finding.id for finding in found.findings}


def test_what_was_left_for_the_last_bucket_says_nothing_of_the_cap():
    one = profile((1.0, 0.12), (1.0, 0.2), (1.0, 0.26), (0.2, 0.3))
    joined = profile((2.0, 0.2), (1.2, 0.3))
    assert predicted(one, 4, change=change_from(["bucket=2x"])).value == pytest.approx(
        predicted(joined, 4).value, rel=0.01
    )


def test_larger_buckets_join_whole_ones_and_a_large_tensor_stays_alone():
    one = profile((2.0, 0.12), (1.0, 0.2), (1.0, 0.3))  # caps of 1 MB; 2 MB came in one tensor
    joined = profile((2.0, 0.12), (2.0, 0.3))
    assert predicted(one, 4, change=change_from(["bucket=2x"])).value == pytest.approx(
        predicted(joined, 4).value, rel=0.01
    )


def test_larger_buckets_are_those_of_the_cap_and_not_of_the_first_bucket():
    """As DDP does it when nobody sets a cap: the first bucket closes at 1 MiB, the others at 25 MiB."""
    one = profile((1.2, 0.1), (27.0, 0.18), (27.0, 0.25), (9.0, 0.3))
    joined = profile((55.2, 0.25), (9.0, 0.3))
    assert predicted(
        replace(one, bucket_cap_bytes=25 * 2**20), 4, change=change_from(["bucket=2x"])
    ).value == pytest.approx(predicted(joined, 4).value, rel=0.01)


def test_a_tensor_that_fills_a_bucket_alone_does_so_until_the_cap_is_larger():
    one = profile((2.1, 0.12), (1.06, 0.3))  # the first is one tensor, more than twice the cap
    same = predicted(replace(one, bucket_cap_bytes=2**20), 4, change=change_from(["bucket=2x"]))
    assert same.value == pytest.approx(predicted(one, 4).value, rel=0.001)


def test_what_fits_into_one_bucket_of_half_the_size_stays_there():
    one = replace(profile((3.0, 0.3)), bucket_cap_bytes=25 * 2**20)
    assert predicted(one, 4, change=change_from(["bucket=0.5x"])) == predicted(one, 4)


def test_one_tensor_larger_than_any_cap_stays_one_bucket_when_caps_grow():
    one = replace(profile((100.0, 0.3)), bucket_cap_bytes=25 * 2**20)
    assert predicted(one, 4, change=change_from(["bucket=2x"])) == predicted(one, 4)


def test_smaller_buckets_are_as_many_as_the_smaller_cap_makes():
    one = replace(profile((26.5, 0.15), (26.5, 0.25), (5.0, 0.3)), bucket_cap_bytes=25 * 2**20)
    even = profile(*((58.0 / 5, 0.06 * k) for k in range(1, 6)))
    smaller = predicted(one, 4, change=change_from(["bucket=0.5x"]))
    assert smaller.value < predicted(one, 4).value
    assert smaller.value == pytest.approx(predicted(even, 4).value, rel=0.05)


def unsteady(ratio):
    return replace(profile((0.01, 0.3)), step_noise_s=Estimate(ratio * STEP_S))


@pytest.mark.parametrize("nodes", [4, 8])
def test_workers_that_are_unsteady_wait_for_the_slowest_of_every_step(nodes):
    """Steps that differ by 8 %: the truth is drawn, the largest of N in every step."""
    draw = np.random.default_rng(1).normal(STEP_S, 0.08 * STEP_S, (4000, nodes))
    hops_s = 2 * (nodes - 1) * 0.0005
    found = predicted(unsteady(0.08), nodes)
    assert found.value == pytest.approx(draw.max(axis=1).mean() + hops_s, rel=0.02)


def test_what_is_unsteady_is_foreseen_less_surely_and_what_is_calm_is_not():
    calm, usual, rough = (predicted(one, 8) for one in (unsteady(0.0), unsteady(0.004), unsteady(0.08)))
    assert calm.value < usual.value < 1.006 * calm.value
    assert rough.value > usual.value
    assert (rough.high - rough.low) / rough.value > 0.2 > 5 * (calm.high - calm.low) / calm.value


def test_half_of_what_launches_differ_by_is_what_workers_differ_by():
    """Launches that differ by 16 % (a standard deviation) are like steps that differ by 8 %."""
    reach = 0.16 / 3**0.5 * t_quantile(2)
    time = Estimate(STEP_S, STEP_S * np.exp(-reach), STEP_S * np.exp(reach), 3)
    apart, rough = (
        predicted(replace(unsteady(0.0), step_s=time, compute_s=time), 8),
        predicted(unsteady(0.08), 8),
    )
    assert apart.value == pytest.approx(rough.value, rel=0.02)
    assert apart.low < rough.low
    assert apart.high > rough.high
