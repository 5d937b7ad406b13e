"""What nccl-tests (and rccl-tests) prints -> NcclTests, one for every test in the text.

    # nThread 1 nGpus 1 minBytes …                                        a test begins
    # Rank  0 Group  0 Pid 5092 on host-a device 0 [0x21] NVIDIA H100     a worker and its node
    # size count type redop root   time algbw busbw #wrong   time algbw busbw #wrong
    1048576 262144 float sum -1    105.9 9.90 17.33 0        105.7 9.92 17.37 0
    (bytes)                        (µs) out of place         (µs) in place

Tables of all versions are read: without redop and root (before 2.13), without the second column (rccl-tests), with
four figures of single iterations after each column, with the time of day at the end (both since 2.17), with the
algorithm, protocol and channels at the end (rccl-tests).
Anything else in the text is passed over: comments, NCCL's own messages, prefixes of mpirun and srun, a row that was
cut off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile

__all__ = ["NcclCell", "NcclTest", "nccl_tests_of_text"]

_PREFIX = re.compile(
    r"^\s*(?:\[[^\]\s]*\d+,\d+\]<std(?:out|err)>:|\d+:(?=\s))"
)  # mpirun --tag-output, srun -l
_BEGIN = re.compile(r"^\s*#?\s*nThreads? +\d+ +nGpus? +\d+")
_RANK = re.compile(r"^\s*#?\s*Rank\s+(\d{1,9})\b.*?\bon\s+(\S+)\s+device\b")
_NAME = re.compile(r"\b([a-z_]+)_perf\b")
_CLOCK = re.compile(r"\s\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\s*$")
_HEAD = re.compile(r"^\s*(\d{1,18})\s+\d+\s+[a-z]\w*(?:\s+[a-z]\w*)?\s+(\S.*)$")
_NUMBER = re.compile(r"(\d{1,18})(?:\.(\d{1,18}))?(?:[eE]([+-]?\d{1,2}))?")
_COUNTED = re.compile(r"-?[\d.]+(?:[eE][+-]?\d+)?\*?|N/A")
_CELL = 4  # time, algorithm bandwidth, bus bandwidth, wrong values
_PER_ITERATION = 4  # smallest, largest, 99th percentile, variation


@dataclass(frozen=True, slots=True)
class NcclCell:
    """One timing of one size: seconds, algorithm and bus bandwidth in GB/s, and half the last digit of these."""

    size_bytes: int
    seconds: float
    algorithm: float
    bus: float
    algorithm_error: float
    bus_error: float
    wrong: bool


@dataclass(frozen=True, slots=True)
class NcclTest:
    """One test: the collectives that it names, the host of every rank that it lists, and its cells."""

    named: frozenset[str]
    hosts: tuple[tuple[int, str], ...]
    cells: tuple[NcclCell, ...]
    per_process: int = 1  # workers for each rank listed

    @property
    def ranks(self) -> int:
        """How many workers are listed."""
        return len({rank for rank, _ in self.hosts}) * self.per_process


def nccl_tests_of_text(text: str) -> tuple[NcclTest, ...]:
    """Every test that has a row. What stands before its first row, after the rows of another, belongs to it."""
    found: list[NcclTest] = []
    held: list[str] = []
    rows = False
    for line in (_PREFIX.sub("", raw) for raw in text.splitlines()):
        cells = _cells(line)
        if rows and not cells and _opens(line):
            found.append(_test(held))
            held, rows = [], False
        held.append(line)
        rows = rows or bool(cells)
    return (*found, *([_test(held)] if rows else []))


def _opens(line: str) -> bool:
    """Whether another test begins: its settings, or its name where it is not said to be over."""
    return bool(_BEGIN.match(line)) or ("concluded" not in line and bool(_NAME.search(line)))


def _test(lines: Iterable[str]) -> NcclTest:
    kept = list(lines)
    return NcclTest(
        named=frozenset(name for line in kept for name in _NAME.findall(line)),
        hosts=tuple((int(match[1]), match[2]) for line in kept if (match := _RANK.match(line))),
        cells=tuple(cell for line in kept for cell in _cells(line)),
    )


def _cells(line: str) -> tuple[NcclCell, ...]:
    """The timings of one row, out of place and in place; none where this is no row."""
    head = _HEAD.match(_CLOCK.sub("", line))
    if head is None:
        return ()
    words = list(takewhile(_COUNTED.fullmatch, head[2].split()))
    widths = {_CELL: _CELL, 2 * _CELL: _CELL, 2 * (_CELL + _PER_ITERATION): _CELL + _PER_ITERATION}
    if words and len(words) not in widths and re.fullmatch(r"-?\d+", words[0]):
        words = words[1:]  # the root
    width = widths.get(len(words))
    if width is None:
        return ()
    read = [_cell(int(head[1]), words[at : at + _CELL]) for at in range(0, len(words), width)]
    return tuple(cell for cell in read if cell is not None) if None not in read else ()


def _cell(size_bytes: int, words: list[str]) -> NcclCell | None:
    time, algorithm, bus = (_number(word) for word in words[:3])
    wrong = (0.0, 0.0) if words[3] == "N/A" else _number(words[3].rstrip("*"))
    if time is None or algorithm is None or bus is None or wrong is None:
        return None
    return NcclCell(size_bytes, time[0] * 1e-6, algorithm[0], bus[0], algorithm[1], bus[1], wrong[0] > 0)


def _number(word: str) -> tuple[float, float] | None:
    """The number that is printed, and half of its last digit."""
    match = _NUMBER.fullmatch(word)
    if match is None:
        return None
    return float(word), 0.5 * 10.0 ** (int(match[3] or 0) - len(match[2] or ""))
