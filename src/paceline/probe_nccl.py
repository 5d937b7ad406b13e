"""Output of nccl-tests (and rccl-tests) -> a Probe: all_reduce_perf, all_gather_perf, reduce_scatter_perf.

    # Rank  0 Group  0 Pid 5092 on host-a device 0 [0x21] NVIDIA H100     a worker and its node
    # size count type redop root   time algbw busbw #wrong   time algbw busbw #wrong
    1048576 262144 float sum -1    105.9 9.90 17.33 0        105.7 9.92 17.37 0
    (bytes)                        (µs) out of place         (µs) in place

Both columns count, as two passes. Where no rank is listed, workers follow from bus over algorithm bandwidth: 2(N−1)/N.
Anything else in the text is passed over: comments, NCCL's own messages, prefixes of MPI, a row that was cut off.
"""

from __future__ import annotations

import math
import re

from paceline.errors import UsageError
from paceline.probe import OPS, bus_factor
from paceline.records import Probe, ProbeTime

__all__ = ["read_nccl_tests"]

_PREFIX = re.compile(r"^\s*\[\d+,\d+\]<std(?:out|err)>:")
_RANK = re.compile(r"^\s*#\s*Rank\s+(\d+)\b.*?\bon\s+(\S+)\s+device\b")
_TEST = re.compile(r"\b([a-z_]+)_perf\b")
_NUMBER = r"(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
_WRONG = r"(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|N/A)"
_ROW = re.compile(
    rf"^\s*(\d+)\s+\d+\s+[a-z]\w*(?:\s+[a-z]\w*)?(?:\s+-?\d+)?"
    rf"\s+{_NUMBER}\s+{_NUMBER}\s+{_NUMBER}\s+{_WRONG}(?:\s+{_NUMBER}\s+{_NUMBER}\s+{_NUMBER}\s+{_WRONG})?\s*$"
)
_BANDWIDTH_STEP = 0.005  # algbw and busbw are printed to two decimals
_ROUNDED = 0.02  # a time is printed to three figures at least
_MOST_WORKERS = 100_000
_MOST_BYTES, _LEAST_US, _MOST_US = 10**15, 0.01, 1e10

Row = tuple[int, float, float, float, int]  # bytes, seconds, algbw, busbw, pass


def read_nccl_tests(
    text: str, *, workers: int | None = None, nodes: int | None = None, source: str = "nccl-tests"
) -> Probe:
    """The times in one or several outputs of the same test. `workers` and `nodes` win over what the text says."""
    lines = [_PREFIX.sub("", line) for line in text.splitlines()]
    ranks = {int(found[1]): found[2] for line in lines if (found := _RANK.match(line))}
    rows, wrong, damaged = _rows(lines)
    if not rows:
        raise UsageError(
            f"{source} holds no row of nccl-tests (size count type redop root time algbw busbw)",
            hint="give the whole output of all_reduce_perf: all_reduce_perf -b 1K -e 128M -f 2 > FILE",
        )
    named = {found for line in lines for found in _TEST.findall(line)}
    op = _op(named, rows, source)
    notes = []
    if workers is None:
        workers = len(ranks) or _workers_by_ratio(op, rows)
        if workers is None:
            raise UsageError(
                f"{source} lists no ranks, and its bandwidths do not tell how many workers there were",
                hint="say it: --workers 8",
            )
        if not ranks:
            notes.append(f"{source} lists no ranks; bus over algorithm bandwidth says {workers} workers")
    if workers < 2:
        raise UsageError(
            f"{source} was measured with {workers} worker: nothing was exchanged",
            hint="test with -g 2 or more",
        )
    if damaged:
        notes.append(
            f"{source}: {damaged} times are passed over, for their bandwidth does not follow from them"
        )
    if wrong:
        notes.append(f"{source} reports wrong values in {wrong} rows: the links or the library are faulty")
    return Probe(
        times=tuple(
            ProbeTime("nccl", op, workers, nodes or len(set(ranks.values())) or 1, size, repeat, seconds)
            for size, seconds, _, _, repeat in rows
        ),
        notes=tuple(notes),
        source=source,
    )


def _rows(lines: list[str]) -> tuple[list[Row], int, int]:
    """All rows, both columns; a later output of the same test counts as further passes.

    And how many rows held wrong values, and how many cells contradict themselves.
    """
    rows: list[Row] = []
    passes: dict[int, int] = {}
    wrong = damaged = 0
    for line in lines:
        match = _ROW.match(line)
        if match is None:
            continue
        size = int(match[1])
        wrong += any(word not in (None, "N/A") and float(word) > 0 for word in (match[5], match[9]))
        for first in (2, 6):
            if match[first] is None:
                continue
            time_us, algorithm, bus = (float(match[first + i]) for i in range(3))
            if _agrees(size, time_us, algorithm):
                passes[size] = passes.get(size, -1) + 1
                rows.append((size, time_us * 1e-6, algorithm, bus, passes[size]))
            else:
                damaged += 1
    return rows, wrong, damaged


def _agrees(size: int, time_us: float, algorithm: float) -> bool:
    """Whether the bandwidth of a row follows from its size and time, as far as they are printed."""
    if not (0 < size < _MOST_BYTES and _LEAST_US <= time_us <= _MOST_US):
        return False
    follows = size / time_us * 1e-3
    return abs(algorithm - follows) <= 2 * _BANDWIDTH_STEP + _ROUNDED * follows


def _op(named: set[str], rows: list[Row], source: str) -> str:
    """The collective: as the text names it, else an all-reduce where the bus carries more than the buffer."""
    known = named & set(OPS)
    if len(known) == 1:
        return known.pop()
    if len(known) > 1:
        raise UsageError(
            f"{source} holds several tests: {', '.join(sorted(known))}",
            hint="give the output of one at a time",
        )
    if named:
        raise UsageError(
            f"{source} is the output of {sorted(named)[0]}_perf, which says nothing about a gradient exchange",
            hint=f"use {', '.join(op + '_perf' for op in OPS)}",
        )
    if any(bus > algorithm + 2 * _BANDWIDTH_STEP for _, _, algorithm, bus, _ in rows):
        return "all_reduce"
    raise UsageError(
        f"{source} does not say which collective was tested",
        hint="add its first lines, or a comment: # all_reduce_perf",
    )


def _workers_by_ratio(op: str, rows: list[Row]) -> int | None:
    """The one count whose bus factor agrees with every row to the precision that was printed, or None."""
    low, high = 0.0, math.inf
    for _, _, algorithm, bus, _ in rows:
        if algorithm <= 10 * _BANDWIDTH_STEP or not math.isfinite(algorithm + bus):
            continue
        low = max(low, (bus - _BANDWIDTH_STEP) / (algorithm + _BANDWIDTH_STEP))
        high = min(high, (bus + _BANDWIDTH_STEP) / (algorithm - _BANDWIDTH_STEP))
    if not 0 < low <= high < math.inf:
        return None
    limit = 2.0 if op == "all_reduce" else 1.0
    if high >= limit:
        return None
    first = max(2, math.floor(limit / (limit - low)) - 1)
    last = min(_MOST_WORKERS, math.ceil(limit / (limit - high)) + 1)
    found = [count for count in range(first, last + 1) if low <= bus_factor(op, count) <= high]
    return found[0] if len(found) == 1 else None
