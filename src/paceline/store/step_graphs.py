"""The step graphs of a worker's file: shapes that are written once, and what each step waited for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paceline.core.errors import StudyError
from paceline.records import Communication, Exchange

__all__ = ["Seen", "exchanges_of", "graphs"]

VERSION = 1
_AT_ONCE_S = 1e-4  # issued so long before its wait: nothing was computed in between
_WAITED_S = 2e-5  # who waits longer than this was released by the end of the communication
_BYTES_UNKNOWN = {"missed", "uncounted", "too many"}


@dataclass(frozen=True, slots=True)
class Seen:
    """What one step's line says of its communications."""

    exchanges: tuple[Exchange, ...] | None = None
    size_bytes: int | None = None
    unseen: tuple[tuple[str, int], ...] = ()


def graphs(lines: Sequence[Mapping[str, object]]) -> Mapping[int, tuple[Communication, ...]]:
    """The shapes by their numbers. A StudyError where a newer Paceline wrote them."""
    found = {}
    for line in lines:
        if line.get("record") != "step_graph":
            continue
        version, number, rows, groups = (
            line.get(k) for k in ("version", "graph", "communications", "groups")
        )
        if isinstance(version, int) and version > VERSION:
            raise StudyError(
                f"step graphs have version {version}, and this Paceline reads versions up to {VERSION}",
                hint="read it with the Paceline that wrote it, or a newer one",
            )
        if isinstance(number, int) and isinstance(rows, list) and isinstance(groups, Mapping):
            found[number] = tuple(_communication(row, groups) for row in rows)
    return found


def exchanges_of(line: Mapping[str, object], shapes: Mapping[int, tuple[Communication, ...]]) -> Seen:
    """The communications of one step; None where it was not looked at or not all of it was seen."""
    if "exchanges" in line:
        return _told_as_pairs(line)
    number, times, unseen = line.get("graph"), line.get("times"), line.get("unseen")
    reasons = (
        tuple((str(reason), int(count)) for reason, count in unseen.items())
        if isinstance(unseen, Mapping)
        else ()
    )
    shape = shapes.get(number) if isinstance(number, int) else None
    if shape is None or not isinstance(times, list) or len(times) != len(shape):
        return Seen(unseen=reasons)
    sizes = [communication.size_bytes for communication in shape]
    known = [size for size in sizes if size is not None]
    missed = len(known) < len(sizes) or any(reason in _BYTES_UNKNOWN for reason, _ in reasons)
    size_bytes = None if missed else sum(known)
    if reasons:
        return Seen(None, size_bytes, reasons)
    return Seen(tuple(_exchange(row, of) for row, of in zip(times, shape, strict=True)), size_bytes)


def _told_as_pairs(line: Mapping[str, object]) -> Seen:
    """Format 1: waits and overlaps in their order, without what they were for."""
    pairs, size = line.get("exchanges"), line.get("bytes")
    exchanges = None
    if isinstance(pairs, list):
        exchanges = tuple(
            Exchange(_number(pair[0]) or 0.0, _number(pair[1]) or 0.0)
            for pair in pairs
            if isinstance(pair, list) and len(pair) == 2
        )
    return Seen(exchanges, size if isinstance(size, int) else None)


def _exchange(row: Sequence[object], of: Communication) -> Exchange:
    issued_s, *edges = (_number(value) or 0.0 for value in row)
    wait_s = sum(end - begin for begin, end in zip(edges[::2], edges[1::2], strict=True))
    before_s = max(0.0, edges[0] - issued_s) if edges else 0.0
    under_way = wait_s > _WAITED_S or before_s < _AT_ONCE_S
    return Exchange(wait_s, before_s if under_way else None, of, issued_s, edges[-1] if edges else None)


def _communication(row: Sequence[object], groups: Mapping[str, object]) -> Communication:
    op, group, number, size_bytes, dtype, phase, peer, tag = row
    ranks = groups.get(str(group))
    return Communication(
        op=str(op),
        group=str(group),
        ranks=tuple(int(rank) for rank in ranks) if isinstance(ranks, list) else (),
        number=int(str(number)),
        size_bytes=size_bytes if isinstance(size_bytes, int) else None,
        dtype=None if dtype is None else str(dtype),
        phase=str(phase),
        peer=peer if isinstance(peer, int) else None,
        tag=tag if isinstance(tag, int) else None,
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
