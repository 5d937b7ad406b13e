"""Rows of the laboratory -> predictions (before) and verdict (after), for benchmarks/lab_prediction.py.

Every prediction is one call of paceline.answers.answers on one Profile (1 worker) and the probed Links, as
`paceline project` makes it; what-ifs are its own changes.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, median

from paceline.answers import Ask, Cluster, answers
from paceline.baselines import METHODS, baseline_times
from paceline.links_probe import link_from_probe
from paceline.observe import Setting
from paceline.records import BucketReady, Estimate, LinkProbe, Point, ProbeTime, Profile
from paceline.stats import estimate
from paceline.whatif import NO_CHANGE, change_from

Row = dict
BINDS = 0.05  # of a step: below it, what more workers add is no bottleneck
CHANGES = {"fp16": "bytes=0.5", "accumulate": "accumulate=4", "link": "link=2x", "bucket": "bucket=2x"}


def predictions_for(raw: list[Row], tasks: list[Row]) -> Iterator[Row]:
    """One row for every cell, and for what-ifs one more on the cells that they change."""
    alone = {name_of(r): r for r in raw if r["launch"] in ("w1", "real1") and r["kind"] == "cell"}
    pairs = {
        (r["stage"], *name_of(r)): r for r in raw if r["launch"] in ("w2", "real2") and r["kind"] == "cell"
    }
    links = {(r["launch"], r["stage"]): link(r) for r in raw if r["kind"] == "probe"}
    for task in tasks:
        real = task["network"].startswith("real")
        profile = profile_of(alone[name_of(task)])
        known = [links["real2" if real else "w2", task["stage"]]]
        if task["workers"] > task["nodes"]:
            known.append(links["inside2", "unshaped"])
        wanted = [name for name in ("fp16", "accumulate") if task.get(name)]
        if task["launch"] == "w4" and not wanted and task["cap_mb"] == 1 and task["stage"] == "120mbit":
            for name in ("link", "bucket"):
                yield _predicted(task, profile, known, CHANGES[name], what_if=name)
        change = CHANGES[wanted[0]] if wanted else None
        row = _predicted(task, profile, known, change, what_if=wanted[0] if wanted else None)
        pair = pairs.get((task["stage"], *name_of(task)))
        if not wanted and task["nodes"] == task["workers"] and pair is not None:
            row["others"] = _others(profile, pair, task["workers"])
        yield row


def _predicted(
    task: Row, profile: Profile, links: list[LinkProbe], change: str | None, *, what_if: str | None
) -> Row:
    ask = Ask(
        at=((Setting(task["workers"], task["nodes"], 1), ()),),
        change=change_from([change]) if change else NO_CHANGE,
    )
    found = answers([profile], cluster=Cluster(backend="gloo", probes=tuple(links)), ask=ask)
    row = {name: value for name, value in task.items() if name != "layers"} | {"what_if": what_if}
    if not found.projections:
        return row | {"refused": [refusal.reason for refusal in found.refusals]}
    projection = found.projections[0]
    time = projection.time_s
    return row | {
        "step_s": time.value, "low_s": time.low, "high_s": time.high, "explanation": projection.explanation,
    }  # fmt: skip


def _others(profile: Profile, pair: Row, workers: int) -> dict[str, float | None]:
    assert profile.step_s is not None
    work = [profile.step_s.value, step_s(pair) / 2]
    found = baseline_times([1.0, 2.0], work, [float(workers)])
    return {name: None if times is None else times[0] * workers for name, times in found.items()}


def profile_of(row: Row) -> Profile:
    """What the desk makes of one worker: its step, and when each bucket was ready."""
    steps = row["workers"][0]["steps_s"]
    middle, spread = median(steps), estimate(steps)
    assert spread is not None
    half = (spread.high or middle) - (spread.low or middle)
    step = Estimate(middle, middle - half / 2, middle + half / 2, len(steps))
    return Profile(
        point=Point("w1", 1, per_worker_batch=1, global_batch=1, backend="gloo"),
        state="ok",
        reason=None,
        trials=1,
        step_s=step,
        compute_s=step,
        optimizer_s=Estimate(row["workers"][0]["optimizer_s"]),
        exchanged_bytes_per_step=Estimate(float(row["bytes"])),
        buckets=tuple(BucketReady(int(size), ready) for size, ready in row["timeline"]["buckets"]),
        backward_end_s=row["timeline"]["backward_end_s"],
    )


def link(row: Row) -> LinkProbe:
    """The Link that the probe measured."""
    nodes = 1 if row["launch"].startswith("inside") else 2
    times = [
        ProbeTime("gloo", r["op"], 2, nodes, r["bytes"], r["repeat"], max(r["seconds"]))
        for r in row["rows"]
        if r["record"] == "row"
    ]
    return link_from_probe(times)


def step_s(row: Row) -> float:
    """The median over steps of the mean over workers.

    Workers are in lockstep, so all take the same time over many steps. In a single step they do not: a ring ends on one
    worker a chunk earlier than on another, and the next time the other way round. The largest of every step would add
    that up.
    """
    return median(fmean(step) for step in zip(*(w["steps_s"] for w in row["workers"]), strict=True))


def wire_s(row: Row) -> float:
    """What workers wait for the network: the mean over workers, less what they wait for a late one."""
    owns = [
        [step - wait for step, wait in zip(w["steps_s"], w["waits_s"], strict=True)] for w in row["workers"]
    ]
    late = median(max(own) - fmean(own) for own in zip(*owns, strict=True))
    return median(fmean(wait) for wait in zip(*(w["waits_s"] for w in row["workers"]), strict=True)) - late


def name_of(row: Row) -> tuple[object, ...]:
    return (row["network"], row["cap_mb"], row["compute_s"])


def full_name(row: Row) -> tuple[object, ...]:
    return (row["launch"], row["stage"], *name_of(row), row.get("fp16"), row.get("accumulate"))


# ---------------------------------------------------------------- after the measurement


def verdict(out: Path) -> str:
    """Join predictions and measurements; write result.json and result.txt."""
    raw = [json.loads(line) for line in (out / "raw.jsonl").read_text().splitlines()]
    predicted = [json.loads(line) for line in (out / "predictions.jsonl").read_text().splitlines()]
    truth = {full_name(r): r for r in raw if r["kind"] == "cell"}
    plain = [p for p in predicted if p["what_if"] is None and full_name(p) in truth]
    lines, result = [], {}
    for launch in dict.fromkeys(p["launch"] for p in plain):
        rows = [p for p in plain if p["launch"] == launch]
        kept = [(p, step_s(truth[full_name(p)])) for p in rows if "step_s" in p]
        result[launch] = _summary(launch, rows, kept, lines)
    bottlenecks(plain, truth, raw, lines, result)
    gains(predicted, truth, lines, result)
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
        "others": {method: fmean(values) if values else None for method, values in others.items()},
        "rows": [
            {"stage": p["stage"], "network": p["network"], "cap_mb": p["cap_mb"], "compute_s": p["compute_s"],
             "predicted_s": p["step_s"], "low_s": p["low_s"], "high_s": p["high_s"], "measured_s": true,
             "error": p["step_s"] / true - 1} for p, true in kept],
    }  # fmt: skip
    beside = ", ".join(f"{m} {v:.1%}" for m, v in found["others"].items() if v is not None)
    lines.append(
        f"{launch:6} {len(kept):3} cells, {found['refused']} refused: mean error {found['error']:.1%}, "
        f"bias {found['bias']:+.1%}, worst {found['worst']:+.1%}, 90 % intervals cover {found['coverage']:.0%}"
        + (f"; beside: {beside}" if beside else "")
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


def bottlenecks(plain: list[Row], truth: dict, raw: list[Row], lines: list[str], result: Row) -> None:
    """What was named before, against what the measurement shows.

    computing: the step grew by less than 5 % over 1 worker. Else the links, by the larger of: what moving the bytes at
    the shaped rate takes (rate), what else the exchange took (latency); or late workers, where they cost more.
    """
    alone = {name_of(r): step_s(r) for r in raw if r["launch"] in ("w1", "real1") and r["kind"] == "cell"}
    right, wrong = 0, []
    for p in plain:
        if "step_s" not in p:
            continue
        row = truth[full_name(p)]
        true = _true_bottleneck(row, p, alone[name_of(p)])
        named = _named(p["explanation"])
        right += named == true
        if named != true:
            wrong.append({"cell": full_name(p), "named": named, "true": true})
    count = right + len(wrong)
    result["bottleneck"] = {"cells": count, "right": right, "wrong": wrong}
    lines.append(f"bottleneck named right in {right} of {count} cells ({right / max(count, 1):.0%})")
    lines += [f"         named {w['named']}, was {w['true']}: {w['cell']}" for w in wrong]


def _true_bottleneck(row: Row, cell: Row, alone_s: float) -> str:
    step = step_s(row)
    excess = step - alone_s
    if excess < BINDS * step:
        return "computing"
    wire = wire_s(row)
    if wire < excess / 2:
        return "late workers"
    workers = cell["workers"]
    rate = float(cell["stage"].removesuffix("mbit")) * 1e6 / 8
    moving = 2 * (workers - 1) / workers * row["bytes"] / rate
    buckets_hidden = max(0.0, moving - wire)
    return "rate" if moving - buckets_hidden >= wire / 2 else "latency"


def _named(explanation: str) -> str:
    if "computing binds" in explanation:
        return "computing"
    return "latency" if "the latency of" in explanation else "rate"


def gains(predicted: list[Row], truth: dict, lines: list[str], result: Row) -> None:
    """Predicted and measured speed of every what-if over the cell that it changes."""
    base = {full_name(p): p for p in predicted if p["what_if"] is None and "step_s" in p}
    found = []
    for p in predicted:
        if p["what_if"] is None or "step_s" not in p:
            continue
        before = (p["launch"], p["stage"], *name_of(p), None, None)
        after = {
            "fp16": full_name(p),
            "accumulate": full_name(p),
            "link": (p["launch"], "240mbit", *name_of(p), None, None),
            "bucket": (p["launch"], p["stage"], p["network"], 2, p["compute_s"], None, None),
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
            f"         {row['network']:10} cap {row['cap_mb']:2} MB, {row['compute_s']} s: predicted "
            f"{row['predicted_gain']:.2f}x, measured {row['measured_gain']:.2f}x"
            for row in rows
        ]


TITLES = {
    "w4": "4 hosts", "w8": "8 hosts", "w16": "16 hosts", "n2w4": "2 hosts × 2 workers",
    "real4": "4 hosts, real computation",
}  # fmt: skip


def table(result: Row) -> list[str]:
    """The verdict as Markdown: counts, bottleneck, what-ifs, and every cell that missed its interval."""
    names = [
        method for method in METHODS if any(result[k]["others"].get(method) for k in TITLES if k in result)
    ]
    heads = ["predicted", "cells", "mean error", "bias", "worst", "90 % intervals cover", *names]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for launch in [name for name in TITLES if name in result]:
        row = result[launch]
        cells = [
            f"{row['error']:.1%}",
            f"{row['bias']:+.1%}",
            f"{row['worst']:+.1%}",
            f"{row['coverage']:.0%}",
        ]
        others = [f"{row['others'][m]:.0%}" if row["others"].get(m) else "–" for m in names]
        lines.append("| " + " | ".join([TITLES[launch], str(row["cells"]), *cells, *others]) + " |")
    right = result["bottleneck"]
    lines += ["", f"Bottleneck named right in {right['right']} of {right['cells']} cells.", ""]
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
