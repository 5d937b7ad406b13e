"""Collectives, bucket timelines, links from sweeps, what-ifs: laws that a person can check."""

import pytest

from paceline.collectives import (
    accumulated_step_s,
    bus_bytes_per_s,
    fsdp_exchanged_bytes,
    gather_s,
    halving_doubling_s,
    hierarchical_all_reduce_s,
    power_sgd_bytes,
    ring_all_reduce_s,
    sync_batch_norm_s,
    tree_all_reduce_s,
    two_level_ring_s,
)
from paceline.errors import UsageError
from paceline.links import SweepRow, Transport, declared, link_from_sweep
from paceline.records import BucketReady, Link
from paceline.timeline import bucket_sizes, timeline
from paceline.whatif import (
    Step,
    compressed,
    faster_link,
    predicted_step_s,
    rebucketed,
    with_accumulation,
    with_placement,
)

_FREE = Link(latency_s=0.0, bytes_per_s=1.0)
_SLOW = Link(latency_s=1.0, bytes_per_s=1e30)


@pytest.mark.parametrize("workers", [2, 3, 8, 1000])
def test_a_ring_moves_between_one_and_two_buffers(workers):
    assert 1.0 <= ring_all_reduce_s(1.0, workers, _FREE) < 2.0


@pytest.mark.parametrize("function", [ring_all_reduce_s, halving_doubling_s, gather_s])
def test_one_worker_exchanges_nothing(function):
    assert function(1e9, 1, Link(1.0, 1.0)) == 0.0


def test_halving_and_doubling_moves_the_same_bytes_in_fewer_rounds():
    assert halving_doubling_s(8.0, 8, _FREE) == ring_all_reduce_s(8.0, 8, _FREE)
    assert halving_doubling_s(8.0, 8, _SLOW) == 6.0
    assert ring_all_reduce_s(8.0, 8, _SLOW) == 14.0


def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather():
    assert ring_all_reduce_s(5.0, 4, Link(0.1, 2.0)) == pytest.approx(2 * gather_s(5.0, 4, Link(0.1, 2.0)))


def test_latency_of_a_tree_grows_with_the_logarithm_of_the_nodes():
    by_nodes = [tree_all_reduce_s(0.0, 8 * m, m, inside=_FREE, between=_SLOW) for m in (1, 2, 4, 1024)]
    assert by_nodes == [0.0, 2.0, 4.0, 20.0]


def test_a_ring_over_nodes_runs_at_the_pace_of_its_slowest_link():
    fast, slow = Link(0.0, 10.0), Link(0.0, 1.0)
    assert two_level_ring_s(8.0, 8, 2, inside=fast, between=slow) == pytest.approx(2 * 7 / 8 * 8.0)
    assert two_level_ring_s(8.0, 8, 1, inside=fast, between=slow) == pytest.approx(2 * 7 / 8 * 0.8)


def test_a_hierarchy_on_one_node_is_a_ring():
    link = Link(1e-5, 1e9)
    assert hierarchical_all_reduce_s(1e6, 4, 1, inside=link, between=_SLOW) == ring_all_reduce_s(1e6, 4, link)


def test_bus_bandwidth_of_a_ring_is_the_bandwidth_of_its_link():
    seconds = ring_all_reduce_s(1e9, 16, Link(0.0, 5e9))
    assert bus_bytes_per_s(1e9, 16, seconds) == pytest.approx(5e9)


def test_volumes_of_other_exchanges():
    assert fsdp_exchanged_bytes(100.0, 4) == pytest.approx(225.0)
    assert power_sgd_bytes([(1000, 500)], 2) == 4 * 2 * 1500
    assert accumulated_step_s(1.0, 4, 1.5) == 4.5
    assert sync_batch_norm_s([64], 1, _SLOW) == 0.0
    assert sync_batch_norm_s([64], 2, _SLOW) == pytest.approx(3.0)


def test_ddp_closes_a_bucket_when_it_reaches_its_limit():
    assert bucket_sizes([3, 3, 3, 3], first_bytes=1, limit_bytes=5) == [3, 6, 3]
    assert bucket_sizes([], first_bytes=1, limit_bytes=5) == []


def test_exposed_time_is_the_closed_form_of_the_recursion():
    buckets = [BucketReady(2, 1.0), BucketReady(5, 2.0), BucketReady(1, 9.0)]
    found = timeline(buckets, 9.5, lambda size: size)
    closed = max(b.ready_s + sum(x.size_bytes for x in buckets[j:]) for j, b in enumerate(buckets))
    assert found.sent[-1].end_s == closed == 10.0
    assert found.exposed_s == 0.5
    assert found.binding == 2


def test_a_bucket_that_keeps_the_lane_busy_binds():
    found = timeline([BucketReady(8, 1.0), BucketReady(1, 2.0)], 3.0, lambda size: size)
    assert (found.exposed_s, found.binding) == (7.0, 0)
    assert timeline([], 3.0, lambda size: size).exposed_s == 0.0


def test_a_sweep_gives_back_the_link_that_made_it():
    link = Link(2e-5, 3e9)
    rows = [SweepRow(n, s, ring_all_reduce_s(s, n, link)) for n in (2, 4) for s in (1e4, 1e6, 1e8)]
    found = link_from_sweep(rows)
    assert found.latency_s == pytest.approx(2e-5, rel=1e-6)
    assert found.bytes_per_s == pytest.approx(3e9, rel=1e-6)


def test_a_sweep_of_one_size_is_refused():
    with pytest.raises(UsageError, match="2 sizes"):
        link_from_sweep([SweepRow(2, 1e6, 0.1), SweepRow(4, 1e6, 0.1)])


def test_a_declared_link_delivers_a_part_and_no_more_than_its_limit():
    tcp = Transport("tcp", 0.25, 1.0, 1e-4, 1.0, most_bytes_per_s=0.9e9)
    assert declared(tcp, bytes_per_s=1.25e9).bytes_per_s == pytest.approx(0.3125e9)
    assert declared(tcp, bytes_per_s=12.5e9).bytes_per_s == pytest.approx(0.9e9)
    with pytest.raises(UsageError):
        declared(tcp)


_LINK = Link(0.0, 100e6)
_STEP = Step((BucketReady(10_000_000, 0.1), BucketReady(10_000_000, 0.2)), 0.2, 0.05, 2, 1, _LINK, _LINK)


def test_what_ifs_change_one_thing():
    assert predicted_step_s(_STEP) == pytest.approx(0.1 + 0.1 + 0.1 + 0.05)
    assert predicted_step_s(faster_link(_STEP, 2.0)) == pytest.approx(0.2 + 0.05 + 0.05)
    assert predicted_step_s(compressed(_STEP, 0.5, cast_s=0.01)) == pytest.approx(0.2 + 0.05 + 0.05 + 0.01)
    assert predicted_step_s(with_accumulation(_STEP, 3)) == pytest.approx(3 * 0.2 + 0.1 + 0.05)
    assert predicted_step_s(with_placement(_STEP, 1, 1)) == pytest.approx(0.25)


def test_other_buckets_hold_the_same_bytes():
    again = rebucketed(_STEP, 5_000_000)
    assert len(again.buckets) == 4
    assert sum(b.size_bytes for b in again.buckets) == 20_000_000
    assert again.buckets[-1].ready_s == 0.2
