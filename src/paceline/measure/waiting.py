"""What workers wait for in one step: their communications, aligned by group and number.

    least wait of a member       the last to arrive waits for nobody: that is the network
    the rest of a member's wait  is for whoever came later

Per communication, then summed along the step: the last to arrive may differ from one to the next. Operations of a
group have the same order on all its members; a message is its sender's and its receiver's. Two workers whose
communications do not match are not compared at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.records import MESSAGES, Communication, Exchange, Sample

__all__ = ["Waiting", "bus_bytes", "bus_factor", "waiting"]


@dataclass(frozen=True, slots=True)
class Waiting:
    """One step's waits, worker by worker."""

    waits_s: tuple[float, ...]  # all of them
    wires_s: tuple[float, ...]  # of these, for the network
    messages_s: tuple[
        float, ...
    ]  # of these, for messages beyond the network: in a pipeline, for other stages
    hidden_s: float | None  # the last arrival's: under way before it arrived; None where that is not known
    aligned: bool


def waiting(exchanges: Sequence[Sequence[Exchange]]) -> Waiting:
    """The waits of all workers in one step; `exchanges` by rank."""
    waits = tuple(sum(e.wait_s for e in own) for own in exchanges)
    last = exchanges[waits.index(min(waits))]
    overlaps = [e.overlap_s for e in last if e.overlap_s is not None]
    hidden_s = sum(overlaps) if len(overlaps) == len(last) else None
    if any(e.of is None for own in exchanges for e in own):
        wire_s = _wire_in_order(exchanges, waits)
        return Waiting(waits, (wire_s,) * len(waits), (0.0,) * len(waits), hidden_s, True)
    together: dict[object, list[tuple[int, Exchange]]] = {}
    for rank, own in enumerate(exchanges):
        for exchange in own:
            if exchange.of is not None:
                together.setdefault(_key(exchange.of, rank), []).append((rank, exchange))
    wires, messages = [0.0] * len(exchanges), [0.0] * len(exchanges)
    aligned = True
    for met in together.values():
        of = met[0][1].of
        wire_s = min(exchange.wait_s for _, exchange in met)
        aligned = aligned and of is not None and {rank for rank, _ in met} == _members(of, met[0][0])
        for rank, exchange in met:
            wires[rank] += wire_s
            if of is not None and of.op in MESSAGES:
                messages[rank] += exchange.wait_s - wire_s
    return Waiting(waits, tuple(wires), tuple(messages), hidden_s, aligned)


def bus_bytes(sample: Sample, workers: int) -> float | None:
    """What a link carries for one worker's operations in one step."""
    if sample.exchanged_bytes is None or workers < 2:
        return None
    if sample.exchanges is None or any(e.of is None for e in sample.exchanges):
        return sample.exchanged_bytes * bus_factor("all_reduce", workers)
    known = [e.of for e in sample.exchanges if e.of is not None]
    return sum((of.size_bytes or 0) * bus_factor(of.op, len(of.ranks)) for of in known)


def bus_factor(op: str, workers: int) -> float:
    """Bytes that each link of a ring carries per byte of the buffer: nccl-tests' factor."""
    if op in (*MESSAGES, "broadcast", "reduce"):
        return 1.0
    rounds = 2 if op == "all_reduce" else 1
    return rounds * (workers - 1) / workers


def _key(of: Communication, rank: int) -> object:
    if of.op not in MESSAGES:
        return of.group, of.number
    source, target = (rank, of.peer) if of.op == "send" else (of.peer, rank)
    return of.group, source, target, of.tag, of.number


def _members(of: Communication, rank: int) -> set[int | None]:
    return {rank, of.peer} if of.op in MESSAGES else set(of.ranks)


def _wire_in_order(exchanges: Sequence[Sequence[Exchange]], waits: Sequence[float]) -> float:
    """Of waits that are not told apart: as many on each worker are taken for the same, in their order."""
    if len({len(own) for own in exchanges}) > 1:
        return min(waits)
    wire_s: float = sum(min(e.wait_s for e in together) for together in zip(*exchanges, strict=True))
    return wire_s
