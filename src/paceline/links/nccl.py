"""Output of nccl-tests (and rccl-tests) -> a Probe: all_reduce_perf, all_gather_perf, reduce_scatter_perf.

What they print (probe_nccl_text) or write with -J (probe_nccl_json). One text may hold several tests, of several
collectives and worker counts. Both columns of a row, and later outputs of the same test, count as passes. A bus
bandwidth is computed from the number of workers, 2(N−1)/N of the algorithm bandwidth for an all-reduce: where ranks
are not listed, or not all of them, N follows from that.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from paceline.core.errors import UsageError
from paceline.links.nccl_json import looks_like_json, nccl_test_of_json
from paceline.links.nccl_text import NcclCell, NcclTest, nccl_tests_of_text
from paceline.links.probe import OPS
from paceline.measure.waiting import bus_factor
from paceline.records import Probe, ProbeTime

__all__ = ["read_nccl_tests"]

_ROUNDED = 0.02  # a time is printed to three figures at least
_FIGURES = 10.0  # a bandwidth of fewer last digits says nothing about a ratio
_MOST_WORKERS = 100_000
_MOST_BYTES, _LEAST_S, _MOST_S = 10**15, 1e-8, 1e4


def read_nccl_tests(
    text: str, *, workers: int | None = None, nodes: int | None = None, source: str = "nccl-tests"
) -> Probe:
    """The times of every test in the text. `workers` and `nodes` win over what it says."""
    tests = (nccl_test_of_json(text, source=source),) if looks_like_json(text) else nccl_tests_of_text(text)
    if not any(test.cells for test in tests):
        raise UsageError(
            f"{source} holds no row of nccl-tests (size count type redop root time algbw busbw)",
            hint="give the whole output of all_reduce_perf: all_reduce_perf -b 1K -e 128M -f 2 > FILE",
        )
    times: list[ProbeTime] = []
    notes: list[str] = []
    passes: dict[tuple[str, int, int, int], int] = defaultdict(int)
    for test, op in _with_op(tests, source, notes):
        sound = [cell for cell in test.cells if _agrees(cell)]
        hosts = nodes or len({host for _, host in test.hosts}) or 1
        count = workers or _workers(test, op, sound, source, notes)
        if nodes is None and count > test.ranks:
            place = "1 node" if hosts == 1 else f"{hosts} nodes"
            notes.append(f"{source}: {count} workers are taken to be on {place}; --nodes says otherwise")
        for cell in sound:
            key = (op, count, hosts, cell.size_bytes)
            times.append(ProbeTime("nccl", op, count, hosts, cell.size_bytes, passes[key], cell.seconds))
            passes[key] += 1
        notes += _doubts(test, sound, source)
    return Probe(times=tuple(times), notes=tuple(dict.fromkeys(notes)), source=source)


def _with_op(tests: Sequence[NcclTest], source: str, notes: list[str]) -> Iterator[tuple[NcclTest, str]]:
    """Every test with its collective: as it names it, as the only name in the text, or as its bandwidths tell."""
    everywhere = {name for test in tests for name in test.named}
    told = [(test, _op(test, everywhere)) for test in tests]
    others = sorted({op for _, op in told if op is not None and op not in OPS})
    if all(op not in OPS for _, op in told):
        if others:
            raise UsageError(
                f"{source} is the output of {others[0]}_perf, which says nothing about gradients",
                hint=f"use {', '.join(op + '_perf' for op in OPS)}",
            )
        raise UsageError(
            f"{source} does not say which collective was tested",
            hint="add its first lines, or a comment: # all_reduce_perf",
        )
    notes += [f"{source}: {op}_perf says nothing about gradients, and is passed over" for op in others]
    if any(op is None for _, op in told):
        notes.append(f"{source}: a test that does not say its collective is passed over")
    yield from ((test, op) for test, op in told if op in OPS)


def _op(test: NcclTest, everywhere: set[str]) -> str | None:
    """The collective of one test; an all-reduce where the bus carries more than the buffer."""
    names = sorted(test.named & set(OPS)) or sorted(test.named)
    if not names and len(everywhere) == 1:
        names = sorted(everywhere)
    if len(names) == 1:
        return names[0]
    more = any(cell.bus - cell.bus_error > cell.algorithm + cell.algorithm_error for cell in test.cells)
    return "all_reduce" if more and (not names or "all_reduce" in names) else None


def _workers(test: NcclTest, op: str, cells: Sequence[NcclCell], source: str, notes: list[str]) -> int:
    listed = test.ranks
    told = _workers_by_ratio(op, cells)
    if not listed and told is None:
        raise UsageError(
            f"{source} lists no ranks, and it does not say how many workers there were",
            hint="say it: --workers 8",
        )
    if listed == 1 and told is None:
        alone = len(test.hosts) > 1
        raise UsageError(
            f"{source} was measured with 1 worker"
            + (f", {len(test.hosts)} times beside one another" if alone else "")
            + ": nothing was sent",
            hint="build nccl-tests with MPI=1, so that its processes know of one another"
            if alone
            else "test with -g 2 or more",
        )
    if told is None or told == listed:
        return listed
    seen = f"lists {listed} ranks" if listed else "lists no ranks"
    notes.append(f"{source} {seen}; bus over algorithm bandwidth says {told} workers")
    return told


def _doubts(test: NcclTest, sound: Sequence[NcclCell], source: str) -> Iterator[str]:
    damaged = sum(cell.size_bytes > 0 for cell in test.cells) - len(sound)
    if damaged:
        yield f"{source}: {damaged} times are passed over, for their bandwidth does not follow from them"
    wrong = len({cell.size_bytes for cell in test.cells if cell.wrong})
    if wrong:
        yield f"{source} reports wrong values at {wrong} sizes: the links or the library are faulty"


def _agrees(cell: NcclCell) -> bool:
    """Whether the bandwidth of a row follows from its size and time, as far as they are printed."""
    if not (0 < cell.size_bytes < _MOST_BYTES and _LEAST_S <= cell.seconds <= _MOST_S):
        return False
    follows = cell.size_bytes / cell.seconds * 1e-9
    return abs(cell.algorithm - follows) <= 2 * cell.algorithm_error + _ROUNDED * follows


def _workers_by_ratio(op: str, cells: Sequence[NcclCell]) -> int | None:
    """The one count whose bus factor agrees with every row to the precision that was printed, or None."""
    low, high = 0.0, math.inf
    for cell in cells:
        if cell.algorithm <= _FIGURES * cell.algorithm_error or not math.isfinite(cell.bus):
            continue
        low = max(low, (cell.bus - cell.bus_error) / (cell.algorithm + cell.algorithm_error))
        high = min(high, (cell.bus + cell.bus_error) / (cell.algorithm - cell.algorithm_error))
    limit = 2.0 if op == "all_reduce" else 1.0
    if not 0 < low <= high < limit:
        return None
    first = max(2, math.floor(limit / (limit - low)) - 1)
    last = min(_MOST_WORKERS, math.ceil(limit / (limit - high)) + 1)
    found = [count for count in range(first, last + 1) if low <= bus_factor(op, count) <= high]
    return found[0] if len(found) == 1 else None
