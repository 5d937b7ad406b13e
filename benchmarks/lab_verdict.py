"""Predictions and measurements of the laboratory -> the verdict, for benchmarks/lab_prediction.py.

python benchmarks/lab_verdict.py FOLDER          reads raw.jsonl and predictions.jsonl, writes result.* and table.md
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from statistics import fmean, median

from lab_cells import SETS, Cells, family, same, sources
from lab_foresee import CHANGES, Row, name_of, predictions_for, step_s
from paceline.baselines import METHODS, baseline_times

EACH, KNOWN = " each", " known"
TASK = ("launch", "stage", "network", "cap_mb", "compute_s", "steps", "workers", "nodes", "round")
BINDS = 0.05  # of a step: below it, what more workers add is no bottleneck
TITLES = {
    "w4": "4 hosts", "w8": "8 hosts", "w16": "16 hosts", "w2x2": "2 hosts × 2 workers",
    "lag4": "4 hosts, links with a delay", "lag8": "8 hosts, links with a delay", "late4": "4 hosts, one late",
    "late8": "8 hosts, one late", "real4": "4 hosts, real computation",
    "eighth8": "8 hosts, real computation",
    "own4": "4 hosts, two cores each", "own8": "8 hosts, two cores each",
    "real4 each": "4 hosts, real computation, each round by itself",
    "eighth8 each": "8 hosts, real computation, each round by itself",
    "own4 each": "4 hosts, two cores each, each round by itself",
    "own8 each": "8 hosts, two cores each, each round by itself",
    "real4 known": "4 hosts, real computation, computing known",
    "eighth8 known": "8 hosts, real computation, computing known",
    "own4 known": "4 hosts, two cores each, computing known",
    "own8 known": "8 hosts, two cores each, computing known",
}  # fmt: skip


def full_name(row: Row) -> tuple[object, ...]:
    return (row["launch"], row["stage"], *same({**row, "kind": "cell"}))


def own_s(worker: Row) -> list[float]:
    """What a worker computed in every step."""
    return [step - wait for step, wait in zip(worker["steps_s"], worker["waits_s"], strict=True)]


def wire_s(row: Row) -> float:
    """What workers wait for the network: the mean over workers, less what they wait for a late one."""
    owns = [own_s(worker) for worker in row["workers"]]
    late = median(max(own) - fmean(own) for own in zip(*owns, strict=True))
    return median(fmean(wait) for wait in zip(*(w["waits_s"] for w in row["workers"]), strict=True)) - late


def verdict(out: Path, cells: Cells) -> str:
    """Join predictions and measurements; write result.json, result.txt and table.md."""
    raw = [json.loads(line) for line in (out / "raw.jsonl").read_text().splitlines()]
    predicted = [json.loads(line) for line in (out / "predictions.jsonl").read_text().splitlines()]
    truth = {full_name(r): r for r in raw if r["kind"] == "cell"}
    plain = [p for p in predicted if p["what_if"] is None and full_name(p) in truth]
    lines, result = [], {}
    for launch in dict.fromkeys(p["launch"] for p in plain):
        rows = [p for p in plain if p["launch"] == launch]
        kept = [(p, step_s(truth[full_name(p)])) for p in rows if "step_s" in p]
        several = len({p.get("round") for p in rows}) > 1
        result[launch + EACH * several] = _summary(launch + EACH * several, rows, kept, lines)
        if several:
            joined = over_rounds(raw, rows, cells)
            result[launch] = _summary(launch, [p for p, _ in joined], joined, lines)
            known = in_hindsight(raw, rows, cells)
            result[launch + KNOWN] = _summary(launch + KNOWN, [p for p, _ in known], known, lines)
    given_more(plain, truth, raw, lines, result)
    bottlenecks(plain, truth, raw, lines, result)
    gains(predicted, truth, cells, lines, result)
    (out / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    (out / "result.txt").write_text("\n".join(lines) + "\n")
    (out / "table.md").write_text("\n".join(table(result)) + "\n")
    return "\n".join(lines)


def over_rounds(raw: list[Row], rows: list[Row], cells: Cells) -> list[tuple[Row, float]]:
    """Every cell foreseen from the profiles of all its rounds, and its median over rounds: alternating rounds even out
    what the machine does from minute to minute. Measured trainings are not looked at for it."""
    measured = {cell: median(map(step_s, rounds)) for cell, rounds in _trained(raw, rows).items()}
    return [(p, measured[_cell(p)]) for p in predictions_for(raw, _asked(rows), cells) if "step_s" in p]


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
    found = predictions_for(raw, _asked(rows), cells, computing_s=lambda task: known[_cell(task)])
    return [(p, measured[_cell(p)]) for p in found if "step_s" in p]


def _trained(raw: list[Row], rows: list[Row]) -> dict[tuple[object, ...], list[Row]]:
    """The measured rounds of every cell."""
    found = defaultdict(list)
    for r in raw:
        if r["kind"] == "cell" and r["launch"] == rows[0]["launch"] and not r.get("alone"):
            found[_cell(r)].append(r)
    return found


def _asked(rows: list[Row]) -> list[Row]:
    """Every cell once, of no round."""
    return list({_cell(p): {**{name: p[name] for name in TASK}, "round": None} for p in rows}.values())


def _cell(row: Row) -> tuple[object, ...]:
    return (row["stage"], *name_of(row))


def _summary(launch: str, rows: list[Row], kept: list[tuple[Row, float]], lines: list[str]) -> Row:
    errors = [p["step_s"] / true - 1 for p, true in kept]
    inside = [p["low_s"] <= true <= p["high_s"] for p, true in kept]
    others = {
        method: [abs(p["others"][method] / true - 1) for p, true in kept if p.get("others", {}).get(method)]
        for method in METHODS
    }
    found = {
        "cells": len(kept), "refused": len(rows) - len(kept), "error": fmean(map(abs, errors)), "bias": fmean(errors),
        "worst": max(errors, key=abs), "coverage": fmean(inside),
        "half_width": fmean((p["high_s"] - p["low_s"]) / 2 / p["step_s"] for p, _ in kept),
        "others": {method: fmean(values) if values else None for method, values in others.items()},
        "rows": [
            {"stage": p["stage"], "network": p["network"], "cap_mb": p["cap_mb"], "compute_s": p["compute_s"],
             "predicted_s": p["step_s"], "low_s": p["low_s"], "high_s": p["high_s"], "measured_s": true,
             "error": p["step_s"] / true - 1} for p, true in kept],
    }  # fmt: skip
    beside = ", ".join(f"{m} {v:.1%}" for m, v in found["others"].items() if v is not None)
    lines.append(
        f"{launch:6} {len(kept):3} cells, {found['refused']} refused: mean error {found['error']:.1%}, "
        f"bias {found['bias']:+.1%}, worst {found['worst']:+.1%}, 90 % intervals cover {found['coverage']:.0%}, "
        f"half as wide as {found['half_width']:.1%}" + (f"; beside: {beside}" if beside else "")
    )
    by: dict[str, list[float]] = defaultdict(list)
    for (p, _), error in zip(kept, errors, strict=True):
        for name in ("stage", "network", "cap_mb", "compute_s"):
            by[f"{name}={p[name]}"].append(error)
    lines += [
        f"         {name:20} bias {fmean(values):+.1%}, mean error {fmean(map(abs, values)):.1%}"
        for name, values in by.items()
    ]
    return found


def given_more(plain: list[Row], truth: dict, raw: list[Row], lines: list[str], result: Row) -> None:
    """8 hosts by the other methods, when they are given the trainings of 4 hosts as well: more than was foreseen from.
    Two counts do not determine USL, three do."""
    alone = _alone_s(raw)
    errors: dict[str, list[float]] = defaultdict(list)
    for p in plain:
        kind = family(p["launch"])
        fewer = [truth.get(full_name({**p, "launch": f"{kind}{hosts}"})) for hosts in (2, 4)]
        if p["workers"] != 8 or p["nodes"] != 8 or None in fewer:
            continue
        one = alone[_alone_name(p)]
        work = [one, *(step_s(row) / len(row["workers"]) for row in fewer)]
        true = step_s(truth[full_name(p)])
        for method, times in baseline_times([1.0, 2.0, 4.0], work, [8.0]).items():
            if times is not None:
                errors[method].append(abs(times[0] * 8 / true - 1))
    result["given_more"] = {method: {"cells": len(e), "error": fmean(e)} for method, e in errors.items()}
    if errors:
        lines.append(_given_more_words(result["given_more"]))


def _given_more_words(found: Row) -> str:
    each = ", ".join(f"{method} {row['error']:.1%} ({row['cells']} cells)" for method, row in found.items())
    return f"8 hosts by the others, given the trainings of 1, 2 and 4 hosts: {each}."


def _alone_s(raw: list[Row]) -> dict[tuple[object, ...], float]:
    """The step of one worker alone, by the names of _alone_name."""
    return {
        (r["launch"], r["stage"] if r.get("alone") else None, r.get("round"), *name_of(r)): step_s(r)
        for r in raw
        if r["kind"] == "cell" and (r.get("alone") or len(r["workers"]) == 1)
    }


def _alone_name(p: Row) -> tuple[object, ...]:
    one = sources(p["launch"])[0]
    return (one, p["stage"] if one == p["launch"] else None, p.get("round"), *name_of(p))


def bottlenecks(plain: list[Row], truth: dict, raw: list[Row], lines: list[str], result: Row) -> None:
    """What was named before, against what the measurement shows.

    computing: the step grew by less than 5 % over 1 worker. Else late workers, where they cost more than the links.
    Else rate, where the same cell on the next faster link waits less by at least half of what it would if rate were
    all, else latency. On the fastest link latency, where it was that on the next slower one; else rate, where moving
    the bytes takes half of the wait or more.
    """
    alone = _alone_s(raw)
    wrong, seen, right = [], Counter(), Counter()
    for p in plain:
        if "step_s" not in p:
            continue
        row = truth[full_name(p)]
        true = _true_bottleneck(row, p, alone[_alone_name(p)], _neighbours(p, truth))
        named = _named(p["explanation"])
        seen[true] += 1
        right[true] += named == true
        if named != true:
            wrong.append({"cell": full_name(p), "named": named, "true": true})
    kinds = {kind: [right[kind], seen[kind]] for kind in seen}
    result["bottleneck"] = {"cells": seen.total(), "right": right.total(), "by_kind": kinds, "wrong": wrong}
    lines.append(_bottleneck_words(result["bottleneck"]))
    lines += [f"         named {w['named']}, was {w['true']}: {w['cell']}" for w in wrong]


def _true_bottleneck(row: Row, cell: Row, alone_s: float, neighbours: tuple[Row | None, Row | None]) -> str:
    step = step_s(row)
    excess = step - alone_s
    if excess < BINDS * step:
        return "computing"
    wire = wire_s(row)
    if wire < excess / 2:
        return "late workers"
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


def _bottleneck_words(found: Row) -> str:
    kinds = ", ".join(f"{kind} {right} of {seen}" for kind, (right, seen) in sorted(found["by_kind"].items()))
    return f"Bottleneck named right in {found['right']} of {found['cells']} cells: {kinds}."


def _named(explanation: str) -> str:
    if "computing binds" in explanation:
        return "computing"
    if "late workers bind" in explanation:
        return "late workers"
    return "latency" if "the latency of" in explanation else "rate"


def gains(predicted: list[Row], truth: dict, cells: Cells, lines: list[str], result: Row) -> None:
    """Predicted and measured speed of every what-if over the cell that it changes."""
    base = {full_name(p): p for p in predicted if p["what_if"] is None and "step_s" in p}
    found = []
    for p in predicted:
        if p["what_if"] is None or "step_s" not in p:
            continue
        plain = {**p, "fp16": None, "accumulate": None}
        before = full_name(plain)
        after = {
            "fp16": full_name(p),
            "accumulate": full_name(p),
            "link": full_name({**plain, "stage": f"{2 * cells.middle_mbit}mbit"}),
            "bucket": full_name({**plain, "cap_mb": cells.joined_mb}),
        }[p["what_if"]]
        if before not in truth or after not in truth or before not in base:
            continue
        work = 4 if p["what_if"] == "accumulate" else 1
        foreseen = work * base[before]["step_s"] / p["step_s"]
        measured = work * step_s(truth[before]) / step_s(truth[after])
        found.append(
            {"what_if": p["what_if"], "network": p["network"], "cap_mb": p["cap_mb"], "compute_s": p["compute_s"],
             "predicted_gain": foreseen, "measured_gain": measured, "error": foreseen / measured - 1}
        )  # fmt: skip
    result["what_if"] = found
    for name in dict.fromkeys(row["what_if"] for row in found):
        rows = [row for row in found if row["what_if"] == name]
        lines.append(
            f"what if {CHANGES[name]}: {len(rows)} cells, mean error of the gain "
            f"{fmean(abs(row['error']) for row in rows):.1%}"
        )
        lines += [
            f"         {row['network']:10} cap {row['cap_mb']:3} MB, {row['compute_s']} s: predicted "
            f"{row['predicted_gain']:.2f}x, measured {row['measured_gain']:.2f}x"
            for row in rows
        ]


def table(result: Row) -> list[str]:
    """The verdict as Markdown: counts, bottleneck, what-ifs, and every cell that missed its interval."""
    names = [
        method for method in METHODS if any(result[k]["others"].get(method) for k in TITLES if k in result)
    ]
    heads = [
        "predicted",
        "cells",
        "mean error",
        "bias",
        "worst",
        "90 % intervals cover",
        "half-width",
        *names,
    ]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for launch in [name for name in TITLES if name in result]:
        row = result[launch]
        cells = [
            f"{row['error']:.1%}",
            f"{row['bias']:+.1%}",
            f"{row['worst']:+.1%}",
            f"{row['coverage']:.0%}",
            f"{row['half_width']:.1%}",
        ]
        others = [f"{row['others'][m]:.0%}" if row["others"].get(m) else "–" for m in names]
        lines.append("| " + " | ".join([TITLES[launch], str(row["cells"]), *cells, *others]) + " |")
    if result["given_more"]:
        lines += ["", _given_more_words(result["given_more"])]
    lines += ["", _bottleneck_words(result["bottleneck"]), ""]
    lines += [
        "| what if, on 4 hosts | cells | mean error of the gain | predicted and measured gains |",
        "|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["what_if"] for row in result["what_if"]):
        rows = [row for row in result["what_if"] if row["what_if"] == name]
        pairs = ", ".join(f"{row['predicted_gain']:.2f}/{row['measured_gain']:.2f}" for row in rows)
        error = fmean(abs(row["error"]) for row in rows)
        lines.append(f"| `{CHANGES[name]}` | {len(rows)} | {error:.1%} | {pairs} |")
    lines += [
        "",
        "Outside their interval:",
        "",
        "| hosts | link | network | cap | computing | predicted | measured |",
        "|---|---|---|---|---|---|---|",
    ]
    for launch in [name for name in TITLES if name in result]:
        for row in result[launch]["rows"]:
            if not row["low_s"] <= row["measured_s"] <= row["high_s"]:
                computing = "real" if row["compute_s"] is None else f"{row['compute_s']} s"
                foreseen = f"{row['predicted_s']:.3f} s ({row['low_s']:.3f}-{row['high_s']:.3f})"
                cells = [
                    TITLES[launch],
                    row["stage"],
                    row["network"],
                    f"{row['cap_mb']} MB",
                    computing,
                    foreseen,
                ]
                lines.append("| " + " | ".join([*cells, f"{row['measured_s']:.3f} s"]) + " |")
    return lines


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    chosen = json.loads((folder / "set.json").read_text())["set"]
    print(verdict(folder, SETS[chosen]))
