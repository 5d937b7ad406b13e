"""Cells that were measured in rounds: each round by itself, and all of a cell together."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from statistics import fmean

from lab_cells import Cells, same, sources
from lab_foresee import Row, name_of, predictions_for, step_s

TASK = ("launch", "stage", "network", "cap_mb", "compute_s", "steps", "workers", "nodes", "round")


def full_name(row: Row) -> tuple[object, ...]:
    return (row["launch"], row["stage"], *same({**row, "kind": "cell"}))


def own_s(worker: Row) -> list[float]:
    """What a worker computed in every step."""
    return [step - wait for step, wait in zip(worker["steps_s"], worker["waits_s"], strict=True)]


def over_rounds(rows: list[Row], truth: dict) -> list[tuple[Row, float]]:
    """Every cell as its rounds foresaw it, each before it was measured, and as they measured it: means over rounds that
    alternate even out what the machine does from minute to minute."""
    found = defaultdict(list)
    for p in rows:
        if "step_s" in p:
            found[cell_of(p)].append(p)
    return [(_mean_of(each), fmean(step_s(truth[full_name(p)]) for p in each)) for each in found.values()]


def _mean_of(rows: list[Row]) -> Row:
    """Predictions of one cell as one; what most of them name is named.

    An interval's part that is each round's own gets smaller with their number; what lasts (the law, the links, the
    steadiness of workers) does not. Rows of before do not tell the two apart: theirs is the mean of the rounds'.
    """
    means = {name: fmean(p[name] for p in rows) for name in ("step_s", "low_s", "high_s")}
    if all("lasting" in p for p in rows):
        lasting, whole = (
            fmean(p["lasting"] for p in rows),
            fmean(math.log(p["high_s"] / p["low_s"]) / 2 for p in rows),
        )
        half = math.sqrt(lasting**2 + max(0.0, whole**2 - lasting**2) / len(rows))
        means |= {"low_s": means["step_s"] * math.exp(-half), "high_s": means["step_s"] * math.exp(half)}
    named = Counter(named_in(p["explanation"]) for p in rows).most_common(1)[0][0]
    told = [p["others"] for p in rows if "others" in p]
    others = {
        method: fmean(each[method] for each in told) if all(each[method] for each in told) else None
        for method in (told[0] if told else ())
    }
    return {**rows[0], **means, "round": None, "named": named, "others": others}


def in_hindsight(raw: list[Row], rows: list[Row], cells: Cells) -> list[tuple[Row, float]]:
    """No prediction: what the law makes of the computing of the measured runs themselves, the slowest worker's of every
    step, with the probed link; and the mean step. What is wrong here is the law's, not the machine's."""
    measured, known = {}, {}
    for cell, rounds in _trained(raw, rows).items():
        owns = [
            slowest for row in rounds for slowest in map(max, zip(*map(own_s, row["workers"]), strict=True))
        ]
        measured[cell] = fmean(step for row in rounds for w in row["workers"] for step in w["steps_s"])
        known[cell] = fmean(owns)
    found = predictions_for(raw, _asked(rows), cells, computing_s=lambda task: known[cell_of(task)])
    return [(p, measured[cell_of(p)]) for p in found if "step_s" in p]


def _trained(raw: list[Row], rows: list[Row]) -> dict[tuple[object, ...], list[Row]]:
    """The measured rounds of every cell."""
    found = defaultdict(list)
    for r in raw:
        if r["kind"] == "cell" and r["launch"] == rows[0]["launch"] and not r.get("alone"):
            found[cell_of(r)].append(r)
    return found


def _asked(rows: list[Row]) -> list[Row]:
    """Every cell once, of no round."""
    return list({cell_of(p): {**{name: p[name] for name in TASK}, "round": None} for p in rows}.values())


def cell_of(row: Row) -> tuple[object, ...]:
    return (row["stage"], *name_of(row))


def joined(truth: dict) -> dict:
    """Measured cells, all rounds of one as one row: every step of every worker."""
    found = defaultdict(list)
    for row in truth.values():
        found[full_name({**row, "round": None})].append(row)
    return {name: {**rows[0], "workers": _one_after_the_other(rows)} for name, rows in found.items()}


def _one_after_the_other(rows: list[Row]) -> list[Row]:
    return [
        {name: [value for worker in same_worker for value in worker[name]] for name in ("steps_s", "waits_s")}
        for same_worker in zip(*(row["workers"] for row in rows), strict=True)
    ]


def alone_s(raw: list[Row]) -> dict[tuple[object, ...], float]:
    """The step of one worker alone, by the names of alone_name."""
    return {
        (r["launch"], r["stage"] if r.get("alone") else None, r.get("round"), *name_of(r)): step_s(r)
        for r in raw
        if r["kind"] == "cell" and (r.get("alone") or len(r["workers"]) == 1)
    }


def alone_name(p: Row) -> tuple[object, ...]:
    one = sources(p["launch"])[0]
    return (one, p["stage"] if one == p["launch"] else None, p.get("round"), *name_of(p))


def named_in(explanation: str) -> str:
    if "computing binds" in explanation:
        return "computing"
    if "late workers bind" in explanation:
        return "late workers"
    return "latency" if "the latency of" in explanation else "rate"
