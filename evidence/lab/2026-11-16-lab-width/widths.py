# Ran on commit 35f9f4a (2026-11-16)
"""Recorded cells that compute, foreseen again with other beliefs: what their intervals would cover. No predictions.

python widths.py FOLDER TAKEN HOP [MILLISECONDS]

TAKEN and HOP: deviations of what computing loses, and of what it adds to a hop, as shares. MILLISECONDS: what it
adds to a hop, for runs of before that was probed.
"""

import math
import sys
from dataclasses import replace
from pathlib import Path
from statistics import fmean

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / name) for name in ("src", "benchmarks")]


def judged(folder: Path, longer_ms: str | None) -> list[str]:
    """One line for every launch of a run: cells, then single predictions."""
    import lab_foresee
    from lab_cells import COMPUTING, SETS, family
    from lab_foresee import step_s
    from lab_prediction import rows
    from lab_rounds import TASK, full_name, over_rounds
    from paceline.links_probe import link_from_probe
    from paceline.records import Estimate

    if longer_ms is not None:
        longer = Estimate(float(longer_ms) / 1e3)
        lab_foresee.link_from_probe = lambda times, **more: replace(link_from_probe(times), busy_hop_s=longer)
    raw = list(rows(folder / "raw.jsonl"))
    truth = {full_name(r): r for r in raw if r["kind"] == "cell" and not r.get("alone")}
    tasks = [
        {name: p[name] for name in TASK}
        for p in rows(folder / "predictions.jsonl")
        if family(p["launch"]) in COMPUTING and full_name(p) in truth
    ]
    foreseen = list(lab_foresee.predictions_for(raw, tasks, SETS["second"]))
    lines = []
    for launch in dict.fromkeys(p["launch"] for p in foreseen):
        single = [p for p in foreseen if p["launch"] == launch]
        cells = over_rounds(single, truth)
        each = [(p, step_s(truth[full_name(p)])) for p in single]
        error = fmean(abs(p["step_s"] / true - 1) for p, true in cells)
        half = fmean(math.log(p["high_s"] / p["low_s"]) / 2 for p, _ in cells)
        lines.append(
            f"{folder.name} {launch}: {_covered(cells)} cells, mean error {error:.1%}, half as wide as {half:.1%}; "
            f"each round {_covered(each)}"
        )
    return lines


def _covered(found: list) -> str:
    return f"{sum(p['low_s'] <= true <= p['high_s'] for p, true in found)} of {len(found)}"


if __name__ == "__main__":
    from paceline import project

    project._TAKEN_SD, project._BUSY_HOP_SD = map(float, sys.argv[2:4])
    print(*judged(Path(sys.argv[1]), *(sys.argv[4:5] or [None])), sep="\n")
