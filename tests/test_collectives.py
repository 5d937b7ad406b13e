"""Collectives and links from sweeps: laws that a person can check."""

import pytest

from paceline.collectives import bus_bytes_per_s, gather_s, ring_all_reduce_s
from paceline.errors import UsageError
from paceline.links import SweepRow, Transport, declared, link_from_sweep
from paceline.records import Link

_FREE = Link(latency_s=0.0, bytes_per_s=1.0)


@pytest.mark.parametrize("workers", [2, 3, 8, 1000])
def test_a_ring_moves_between_one_and_two_buffers(workers):
    assert 1.0 <= ring_all_reduce_s(1.0, workers, _FREE) < 2.0


@pytest.mark.parametrize("function", [ring_all_reduce_s, gather_s])
def test_one_worker_exchanges_nothing(function):
    assert function(1e9, 1, Link(1.0, 1.0)) == 0.0


def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather():
    assert ring_all_reduce_s(5.0, 4, Link(0.1, 2.0)) == pytest.approx(2 * gather_s(5.0, 4, Link(0.1, 2.0)))


def test_bus_bandwidth_of_a_ring_is_the_bandwidth_of_its_link():
    seconds = ring_all_reduce_s(1e9, 16, Link(0.0, 5e9))
    assert bus_bytes_per_s(1e9, 16, seconds) == pytest.approx(5e9)


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
