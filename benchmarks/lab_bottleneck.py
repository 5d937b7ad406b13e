"""What holds a cell back: as it was named before, and as its measurement shows it. For lab_verdict.py."""

from __future__ import annotations

from collections import Counter
from statistics import fmean, median

from lab_foresee import Row, step_s
from lab_rounds import full_name, joined, named_in, over_rounds, own_s

BINDS = 0.05  # of a step: below it, what workers wait for is no bottleneck


def bottlenecks(plain: list[Row], truth: dict, lines: list[str], result: Row) -> None:
    """What was named before, against what the measurement shows.

    By the parts of the measured step itself, with the bounds that a projection names by. Late workers, where waiting
    for them is more than 5 % of the step, and more than waiting for the links. Computing, where links cost less than
    5 %. Else rate, where the same cell on the next faster link waits less by at least half of what it would if rate
    were all, else latency. On the fastest link latency, where it was that on the next slower one; else rate, where
    moving the bytes takes half of the wait or more.
    """
    foreseen = [p for p in plain if "step_s" in p]
    cells = [p for p in foreseen if p.get("round") is None]
    rounds = [p for p in foreseen if p.get("round") is not None]
    for launch in dict.fromkeys(p["launch"] for p in rounds):
        cells += [p for p, _ in over_rounds([p for p in rounds if p["launch"] == launch], truth)]
    result["bottleneck"] = _judged(cells, joined(truth))
    lines += _bottleneck_lines(result["bottleneck"])
    if rounds:
        result["bottleneck each"] = _judged(rounds, truth)
        lines += _bottleneck_lines(result["bottleneck each"])


def _judged(cells: list[Row], truth: dict) -> Row:
    wrong, seen, right = [], Counter(), Counter()
    for p in cells:
        row = truth[full_name(p)]
        true = _true_bottleneck(row, p, _neighbours(p, truth))
        named = p.get("named") or named_in(p["explanation"])
        seen[true] += 1
        right[true] += named == true
        if named != true:
            wrong.append({"cell": full_name(p), "named": named, "true": true})
    kinds = {kind: [right[kind], seen[kind]] for kind in seen}
    return {"cells": seen.total(), "right": right.total(), "by_kind": kinds, "wrong": wrong}


def _bottleneck_lines(found: Row) -> list[str]:
    missed = [f"         named {w['named']}, was {w['true']}: {w['cell']}" for w in found["wrong"]]
    return [bottleneck_words(found), *missed]


def _true_bottleneck(row: Row, cell: Row, neighbours: tuple[Row | None, Row | None]) -> str:
    wire, late, least = wire_s(row), late_s(row), BINDS * step_s(row)
    if late > max(wire, least):
        return "late workers"
    if wire < least:
        return "computing"
    slower, faster = neighbours
    if faster is not None:
        return "rate" if _rate_binds(row, faster) else "latency"
    if slower is not None and not _rate_binds(slower, row):
        return "latency"
    workers = cell["workers"]
    moving = 2 * (workers - 1) / workers * row["bytes"] / (_mbit(row) * 1e6 / 8)
    return "rate" if moving >= wire / 2 else "latency"


def _rate_binds(slower: Row, faster: Row) -> bool:
    """Whether a faster link gained at least half of what it would if waiting were all movement."""
    return 1 - wire_s(faster) / wire_s(slower) >= (1 - _mbit(slower) / _mbit(faster)) / 2


def _neighbours(cell: Row, truth: dict) -> tuple[Row | None, Row | None]:
    """The same cell as it was measured on the next slower and on the next faster link."""
    here, rate = full_name(cell), _mbit(cell)
    rates = {_mbit(row): row for name, row in truth.items() if (name[0], *name[2:]) == (here[0], *here[2:])}
    slower = max((other for other in rates if other < rate), default=None)
    faster = min((other for other in rates if other > rate), default=None)
    return rates.get(slower), rates.get(faster)


def _mbit(row: Row) -> float:
    return float(row["stage"].removesuffix("mbit"))


def bottleneck_words(found: Row) -> str:
    kinds = ", ".join(f"{kind} {right} of {seen}" for kind, (right, seen) in sorted(found["by_kind"].items()))
    return f"Bottleneck named right in {found['right']} of {found['cells']} cells: {kinds}."


def wire_s(row: Row) -> float:
    """What workers wait for the network: the mean over workers, less what they wait for a late one."""
    waits = zip(*(worker["waits_s"] for worker in row["workers"]), strict=True)
    return median(map(fmean, waits)) - late_s(row)


def late_s(row: Row) -> float:
    """What workers wait for the last to come to the exchange: the mean over workers."""
    return median(max(own) - fmean(own) for own in zip(*map(own_s, row["workers"]), strict=True))
