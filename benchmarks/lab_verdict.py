"""Predictions and measurements of the laboratory -> the verdict, for benchmarks/lab_prediction.py.

python benchmarks/lab_verdict.py FOLDER     reads raw.jsonl and predictions.jsonl (or .xz), writes result.* and table.md
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import lab_files
from lab_bottleneck import bottleneck_words, bottlenecks
from lab_cells import SETS, Cells, family
from lab_foresee import CHANGES, Row, step_s
from lab_rounds import alone_name, alone_s, full_name, in_hindsight, over_rounds
from paceline.predict.baselines import METHODS, baseline_times

EACH, KNOWN = " each", " known"
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


def verdict(out: Path, cells: Cells) -> str:
    """Join predictions and measurements; write result.json, result.txt and table.md."""
    raw = list(lab_files.rows(out / "raw.jsonl"))
    predicted = list(lab_files.rows(out / "predictions.jsonl"))
    truth = {full_name(r): r for r in raw if r["kind"] == "cell"}
    plain = [p for p in predicted if p["what_if"] is None and full_name(p) in truth]
    lines, result = [], {}
    for launch in dict.fromkeys(p["launch"] for p in plain):
        rows = [p for p in plain if p["launch"] == launch]
        kept = [(p, step_s(truth[full_name(p)])) for p in rows if "step_s" in p]
        several = len({p.get("round") for p in rows}) > 1
        result[launch + EACH * several] = _summary(launch + EACH * several, rows, kept, lines)
        if several:
            over = over_rounds(rows, truth)
            result[launch] = _summary(launch, [p for p, _ in over], over, lines)
            known = in_hindsight(raw, rows, cells)
            result[launch + KNOWN] = _summary(launch + KNOWN, [p for p, _ in known], known, lines)
    given_more(plain, truth, raw, lines, result)
    bottlenecks(plain, truth, lines, result)
    gains(predicted, truth, cells, lines, result)
    (out / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    (out / "result.txt").write_text("\n".join(lines) + "\n")
    (out / "table.md").write_text("\n".join(table(result)) + "\n")
    return "\n".join(lines)


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
    alone = alone_s(raw)
    errors: dict[str, list[float]] = defaultdict(list)
    for p in plain:
        kind = family(p["launch"])
        fewer = [truth.get(full_name({**p, "launch": f"{kind}{hosts}"})) for hosts in (2, 4)]
        if p["workers"] != 8 or p["nodes"] != 8 or None in fewer:
            continue
        one = alone[alone_name(p)]
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
    lines += ["", bottleneck_words(result["bottleneck"])]
    if "bottleneck each" in result:
        lines += ["", f"Each round by itself: {bottleneck_words(result['bottleneck each'])}"]
    lines.append("")
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
