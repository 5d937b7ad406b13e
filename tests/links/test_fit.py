"""A probe gives back the Link that made its times, says what it cannot tell apart, and its intervals cover."""

import math
from dataclasses import replace

import numpy as np
import pytest

from paceline.analysis.evidence import determined, with_probed
from paceline.analysis.outlook import outlook
from paceline.analysis.question import Ask, Cluster
from paceline.core.errors import UsageError
from paceline.links.belief import LinkBelief
from paceline.links.exchange import exchange_findings, exchange_s
from paceline.links.fit import belief_of, link_from_probe, link_of, link_probes, probe_rows
from paceline.links.probe import rounds, sweep_sizes
from paceline.measure.waiting import bus_factor
from paceline.records import (
    BesideTime,
    BucketReady,
    Estimate,
    Link,
    Point,
    Probe,
    ProbeTime,
    Profile,
    Setting,
)

SIZES = sweep_sizes(64_000_000)


def times(link, workers=2, nodes=1, fixed_s=0.0, op="all_reduce", backend="gloo", sizes=SIZES, noise=None):
    """Times that the law itself would give; `noise(pass)` multiplies every one of them."""
    hops = rounds(op, workers if nodes == 1 else nodes)
    return [
        ProbeTime(
            backend,
            op,
            workers,
            nodes,
            size,
            repeat,
            (fixed_s + hops * link.latency_s + size * bus_factor(op, workers) / link.bytes_per_s)
            * (1.0 if noise is None else noise(repeat)),
        )
        for repeat in range(8)
        for size in sizes
    ]


@pytest.mark.parametrize("workers", [2, 3, 8, 1000])
def test_a_ring_moves_between_one_and_two_buffers(workers):
    assert 1.0 <= bus_factor("all_reduce", workers) < 2.0
    assert bus_factor("all_reduce", workers) == 2 * bus_factor("all_gather", workers)


def test_bus_bandwidth_is_what_nccl_tests_prints():
    """8 workers, 1 MiB in 105.9 µs: algbw 9.90, busbw 17.33 GB/s. An all-gather counts its whole buffer, times 7/8."""
    one = ProbeTime("nccl", "all_reduce", 8, 1, 1_048_576, 0, 105.9e-6)
    row = probe_rows([one])[0]
    assert row.bus_bytes_per_s.value == pytest.approx(17.33e9, rel=1e-3)
    gather = probe_rows([ProbeTime("nccl", "all_gather", 8, 1, 1_048_576, 0, 105.9e-6)])[0]
    assert gather.bus_bytes_per_s.value == pytest.approx(9.90e9 * 7 / 8, rel=1e-3)


@pytest.mark.parametrize("workers", [2, 4])
def test_what_a_byte_takes_of_the_cores_comes_from_sizes_that_move(workers):
    timed = [
        replace(t, cores_s=1e-4 + 3e-9 * t.size_bytes * bus_factor(t.op, workers))
        for t in times(Link(2e-5, 3e9), workers=workers, nodes=workers)
    ]
    found = link_from_probe(timed)
    assert found.cores_s_per_byte == pytest.approx(3e-9, rel=0.1)
    assert belief_of(found).cores_s_per_byte == found.cores_s_per_byte
    assert link_from_probe(times(Link(2e-5, 3e9))).cores_s_per_byte is None


@pytest.mark.parametrize(("workers", "nodes", "hops"), [(2, 1, 2), (4, 4, 6), (4, 2, 2)])
def test_what_computing_adds_to_a_hop_is_the_mean_over_passes(workers, nodes, hops):
    beside = [
        BesideTime("gloo", workers, nodes, size, repeat, 1e-8 * size, 1e-8 * size + hops * longer)
        for repeat, longer in enumerate((0.003, 0.005, 0.004))
        for size in (131_072, 524_288)
    ]
    one = Probe(tuple(times(Link(2e-5, 3e9), workers=workers, nodes=nodes)), beside=tuple(beside))
    other = Probe(tuple(times(Link(2e-5, 3e9), workers=2, nodes=2, backend="nccl")))
    found = {link.backend: link for link in link_probes([one, other])}
    longer = found["gloo"].busy_hop_s
    assert longer.value == pytest.approx(0.004)
    assert longer.low < 0.004 < longer.high
    assert longer.n == 3
    assert belief_of(found["gloo"]).busy_hop_s == longer.value
    assert found["nccl"].busy_hop_s is None
    assert belief_of(found["nccl"]).busy_hop_s is None


def test_computing_makes_no_hop_shorter():
    beside = [BesideTime("gloo", 2, 2, 131_072, repeat, 0.01, 0.009) for repeat in range(3)]
    found = link_from_probe(times(Link(2e-5, 3e9), nodes=2), beside=beside).busy_hop_s
    assert (found.value, found.low) == (0.0, 0.0)


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter"])
@pytest.mark.parametrize("link", [Link(2e-5, 3e9), Link(1e-3, 2e7), Link(4e-6, 3e11)])
def test_a_sweep_gives_back_the_link_that_made_it(op, link):
    found = link_from_probe(times(link, workers=4, op=op))
    assert found.latency_s.value == pytest.approx(link.latency_s, rel=1e-6)
    assert found.bytes_per_s.value == pytest.approx(link.bytes_per_s, rel=1e-6)
    assert found.misfit_ratio == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("rate", [2e7, 8e7])
def test_a_link_that_lets_the_first_bytes_pass_at_once_is_no_faster_for_many(rate):
    """A token bucket with 50 kB in it when every exchange begins."""
    slow = [
        replace(t, seconds=0.0006 + max(t.size_bytes * 1e-9, (t.size_bytes - 50_000) / rate))
        for t in times(Link(3e-4, rate), nodes=2, sizes=(1024, 8192, 131_072, 524_288, 1_048_576, 4_194_304))
    ]
    found = link_from_probe(slow)
    assert found.bytes_per_s.value == pytest.approx(rate, rel=0.01)
    assert found.latency_s.value == pytest.approx(3e-4, rel=0.1)


def test_one_count_cannot_tell_the_fixed_cost_from_the_hops_and_says_so():
    found = link_from_probe(times(Link(1e-4, 1e9), fixed_s=2e-4))
    assert found.fixed_s is None
    assert "fixed_s" in found.unidentified
    assert found.latency_s.value == pytest.approx(2e-4)  # 1e-4 per hop and 2e-4 for the call, over 2 hops


def test_two_counts_tell_them_apart():
    link = Link(1e-4, 1e9)
    found = link_from_probe(times(link, 2, fixed_s=2e-4) + times(link, 4, fixed_s=2e-4))
    assert found.fixed_s.value == pytest.approx(2e-4)
    assert found.latency_s.value == pytest.approx(1e-4)
    assert found.unidentified == ()
    assert (found.workers, found.nodes) == (4, 1)
    assert link_of(found).latency_s == pytest.approx(1e-4 + 2e-4 / 6)  # all of a call, over its 2(4-1) hops


def test_hops_inside_a_node_are_not_counted_between_nodes():
    """2 nodes x 4 workers: 2(M-1) = 2 hops between nodes, 2(N-M) = 12 inside, whose cost the probe inside knows."""
    inside, between = Link(1e-5, 5e9), Link(1e-3, 1e9)
    across = [
        ProbeTime("gloo", "all_reduce", 8, 2, t.size_bytes, t.repeat, t.seconds + 12 * inside.latency_s)
        for t in times(between, 8, 2)
    ]
    one, two = link_probes([Probe(tuple(times(inside, 4))), Probe(tuple(across))])
    assert (one.link, two.link) == ("inside", "between")
    assert two.latency_s.value == pytest.approx(1e-3, rel=1e-6)
    assert two.bytes_per_s.value == pytest.approx(1e9, rel=1e-6)


def test_one_slow_pass_in_eight_moves_nothing():
    spoilt = times(Link(1e-4, 1e9), noise=lambda repeat: 30.0 if repeat == 3 else 1.0)
    found = link_from_probe(spoilt)
    assert found.latency_s.value == pytest.approx(1e-4)
    assert found.bytes_per_s.value == pytest.approx(1e9)


def test_one_pass_has_no_interval():
    found = link_from_probe([t for t in times(Link(1e-4, 1e9)) if t.repeat == 0])
    assert found.bytes_per_s == Estimate(pytest.approx(1e9), None, None, 1)


def test_sizes_that_are_alike_tell_no_bandwidth():
    with pytest.raises(UsageError, match="sizes that differ"):
        link_from_probe(times(Link(1e-4, 1e9), sizes=(1024, 1500)))


def test_a_bandwidth_that_latency_hides_is_only_a_lower_bound():
    random = np.random.default_rng(0)
    small = times(Link(1e-3, 1e10), sizes=sweep_sizes(1_000_000), noise=lambda _: random.uniform(0.9, 1.1))
    found = link_from_probe(small)
    assert "bytes_per_s" in found.unidentified
    assert found.bytes_per_s.value <= 1e10
    assert found.bytes_per_s.high is None
    assert belief_of(found).bytes_sd >= 1.0
    assert not belief_of(found).probed


def test_times_that_do_not_grow_with_the_size_give_a_lower_bound_too():
    flat = [replace(t, seconds=1e-3) for t in times(Link(1e-4, 1e9))]
    found = link_from_probe(flat)
    assert "bytes_per_s" in found.unidentified
    assert found.bytes_per_s.value == pytest.approx(SIZES[-1] / 1e-3)


def test_passes_that_disagree_make_the_belief_wider():
    random = np.random.default_rng(1)
    calm = link_from_probe(times(Link(1e-4, 1e9)))
    wild = link_from_probe(times(Link(1e-4, 1e9), noise=lambda _: math.exp(0.5 * random.standard_normal())))
    assert belief_of(calm).bytes_sd == pytest.approx(0.10)
    assert belief_of(wild).bytes_sd > 0.12


def _covered(counts, trials):
    """How often 90 % intervals of α, a0, B hold the truth; noise 10 % of its own, 5 % that a whole pass shares."""
    truth = Link(1e-4, 2e8)
    hits = np.zeros(3)
    for seed in range(trials):
        random = np.random.default_rng(seed)
        rows = []
        for workers in counts:
            shared = np.exp(0.05 * random.standard_normal(8))
            for t in times(truth, workers, fixed_s=2e-4):
                noise = shared[t.repeat] * math.exp(0.1 * random.standard_normal())
                rows.append(
                    ProbeTime(t.backend, t.op, t.workers, t.nodes, t.size_bytes, t.repeat, t.seconds * noise)
                )
        found = link_from_probe(rows, seed=seed)
        latency = 1e-4 if len(counts) > 1 else 2e-4
        pairs = ((found.latency_s, latency), (found.fixed_s, 2e-4), (found.bytes_per_s, 2e8))
        hits += [e is None or e.low <= value <= e.high for e, value in pairs]
    return hits / trials


def test_intervals_cover():
    assert all(0.80 <= share <= 1.0 for share in _covered((2,), 60))


@pytest.mark.slow
@pytest.mark.parametrize("counts", [(2,), (2, 4)])
def test_intervals_cover_nine_in_ten_over_hundreds_of_probes(counts):
    covered = _covered(counts, 400)
    assert all(0.86 <= share <= 0.98 or share == 1.0 for share in covered), covered


# ---------------------------------------------------------------- what follows for answers


def _profile(gradient_bytes=40e6):
    buckets = tuple(BucketReady(10_000_000, 0.05 + 0.01 * i) for i in range(4))
    return Profile(
        Point("w1", 1, per_worker_batch=32, global_batch=32, backend="gloo"),
        "ok",
        None,
        trials=5,
        step_s=Estimate(0.1, 0.099, 0.101, 5),
        compute_s=Estimate(0.1, 0.099, 0.101, 5),
        exposed_s=Estimate(0.0, 0.0, 0.0, 5),
        exchanged_bytes_per_step=Estimate(gradient_bytes, gradient_bytes, gradient_bytes, 5),
        buckets=buckets,
        backward_end_s=0.09,
    )


def _projected(*probes, **cluster):
    ask = Ask(at=((Setting(4, 4, 32), ()),), project_to=())
    found = outlook([_profile()], cluster=Cluster(workers_per_node=1, probes=probes, **cluster), ask=ask)
    return found, found.projections[0]


def test_a_projection_rests_on_the_probed_link_and_names_it():
    """40 MB over 4 nodes: 60 MB pass every link, 3 s at 20 MB/s and 0.03 s at 2 GB/s; backward ends at 0.09 s."""
    slow = link_from_probe(times(Link(1e-4, 2e7), nodes=2))
    fast = link_from_probe(times(Link(1e-4, 2e9), nodes=2))
    _, narrow = _projected(slow)
    wide_fit, wide = _projected(fast)
    assert narrow.time_s.value == pytest.approx(3.05, rel=0.05)
    assert wide.time_s.value < 0.2
    assert "links between nodes: probed over gloo at 2 workers" in wide.explanation
    assert "2.00 GB/s, 100 µs per hop (probed over gloo" in wide_fit.fit.explanation
    assert not {"exchange_between_nodes_s", "latency_between_nodes_s"} & set(wide_fit.fit.unidentified)


def test_what_was_probed_counts_for_more_than_what_was_declared():
    probe = link_from_probe(times(Link(1e-4, 2e7), nodes=2))
    said = LinkBelief(1e10, 0.1, 1e-5, 0.3, "tcp, declared")
    _, both = _projected(probe, between=said)
    _, alone = _projected(probe)
    assert both.time_s == alone.time_s


def _wired(wire_s, workers=4, backend="gloo"):
    return replace(
        _profile(),
        point=Point("w4", workers, nodes=4, backend=backend),
        wire_s=Estimate(wire_s, 0.9 * wire_s, 2.0, 5),
    )


def test_an_exchange_takes_the_hops_of_every_bucket_and_the_bytes_of_all():
    """4 buckets x 6 hops x 1 ms, and 60 MB at 100 MB/s."""
    link = link_from_probe(times(Link(1e-3, 1e8), nodes=2))
    assert exchange_s(_wired(1.0), link) == pytest.approx(0.024 + 0.6)
    assert exchange_s(replace(_wired(1.0), exchanged_bytes_per_step=None), link) is None


@pytest.mark.parametrize(("wire_s", "told"), [(0.5, False), (1.2, False), (1.5, True)])
def test_wire_time_of_twice_the_whole_exchange_is_not_the_links_fault(wire_s, told):
    link = link_from_probe(times(Link(1e-3, 1e8), nodes=2))
    found = exchange_findings([_wired(wire_s)], [link])
    assert [finding.id for finding in found] == ["exchange-below-probe"] * told
    assert exchange_findings([_wired(wire_s, backend="nccl")], [link]) == ()


def test_a_probe_over_another_backend_says_nothing():
    nccl = link_from_probe(times(Link(1e-5, 1e11), nodes=2, backend="nccl"))
    said = LinkBelief(1e10, 0.1, 1e-5, 0.3, "tcp, declared")
    cluster = Cluster(between=said, probes=(nccl,))
    assert with_probed(cluster, "gloo").between is said
    assert with_probed(cluster, "nccl").between.bytes_per_s == pytest.approx(1e11)
    assert determined(with_probed(cluster, "nccl")) == {"exchange_between_nodes_s", "latency_between_nodes_s"}
