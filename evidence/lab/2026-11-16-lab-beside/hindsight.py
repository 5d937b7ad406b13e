# Ran on commit 61863c4 (2026-11-16)
"""Recorded cells that compute, foreseen again with a hop that takes so much longer beside computing. No predictions.

python hindsight.py FOLDER MILLISECONDS …       FOLDER: raw.jsonl and predictions.jsonl of a run of before
"""

import sys
from dataclasses import replace
from pathlib import Path
from statistics import fmean

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / name) for name in ("src", "benchmarks")]


def judged(folder: Path, longer_ms: float) -> str:
    """All cells of a run, as the law foresees them now."""
    import lab_foresee
    from lab_bottleneck import _judged
    from lab_cells import SETS
    from lab_prediction import rows
    from lab_rounds import TASK, full_name, joined, over_rounds
    from paceline.links_probe import link_from_probe
    from paceline.records import Estimate

    raw = list(rows(folder / "raw.jsonl"))
    tasks = [{name: p[name] for name in TASK} for p in rows(folder / "predictions.jsonl")]
    truth = {full_name(r): r for r in raw if r["kind"] == "cell" and not r.get("alone")}
    longer = Estimate(longer_ms / 1e3)
    lab_foresee.link_from_probe = lambda times, **more: replace(link_from_probe(times), busy_hop_s=longer)
    foreseen = list(lab_foresee.predictions_for(raw, tasks, SETS["second"]))
    found = []
    for launch in dict.fromkeys(p["launch"] for p in foreseen):
        found += over_rounds([p for p in foreseen if p["launch"] == launch], truth)
    errors = [p["step_s"] / measured - 1 for p, measured in found]
    covered = sum(p["low_s"] <= measured <= p["high_s"] for p, measured in found)
    right = _judged([p for p, _ in found], joined(truth))["right"]
    return (
        f"{folder.name}, {longer_ms:g} ms: mean error {fmean(map(abs, errors)):.1%}, bias {fmean(errors):+.1%}, "
        f"{covered} of {len(found)} covered, bottleneck in {right}"
    )


if __name__ == "__main__":
    for each in sys.argv[2:]:
        print(judged(Path(sys.argv[1]), float(each)), flush=True)
