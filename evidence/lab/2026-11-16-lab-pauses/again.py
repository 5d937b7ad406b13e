# Ran on commit dd33fef (2026-11-16)
"""Recorded cells that compute, foreseen again as the law is now. No predictions.

python again.py pair|probe FOLDER ...

    pair     as if the probe had been the first two hosts, while each trained alone at the same time
    probe    with the probe of that time, which computed without a pause
"""

import math
import sys
from pathlib import Path
from statistics import fmean

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / name) for name in ("src", "benchmarks")]


def main():
    import lab_foresee
    from lab_bottleneck import bottlenecks
    from lab_cells import COMPUTING, SETS, family
    from lab_prediction import rows
    from lab_rounds import TASK, full_name, over_rounds

    if sys.argv[1] == "pair":
        lab_foresee.steady_probes = pair_of
    for folder in map(Path, sys.argv[2:]):
        raw = list(rows(folder / "raw.jsonl"))
        truth = {full_name(r): r for r in raw if r["kind"] == "cell" and not r.get("alone")}
        tasks = [
            {name: p[name] for name in TASK}
            for p in rows(folder / "predictions.jsonl")
            if family(p["launch"]) in COMPUTING and full_name(p) in truth
        ]
        foreseen = list(lab_foresee.predictions_for(raw, tasks, SETS["second"]))
        for launch in dict.fromkeys(p["launch"] for p in foreseen):
            single = [p for p in foreseen if p["launch"] == launch]
            each = [(p, lab_foresee.step_s(truth[full_name(p)])) for p in single]
            lines, result = [], {}
            bottlenecks(single, truth, lines, result)
            print(
                f"{folder.parent.name}/{folder.name} {launch}: cells {said(over_rounds(single, truth))}; {lines[0]}"
            )
            print(f"    each round by itself {said(each)}")


def pair_of(raw, launch):
    from lab_cells import family
    from paceline.records import SteadyProbe

    series, steps = ([], []), 0
    for row in raw:
        if row["kind"] == "cell" and row.get("alone") and family(row["launch"]) == family(launch):
            both = [worker["steps_s"] for worker in row["workers"][:2]]
            mean, steps = fmean(map(fmean, both)), len(both[0])
            for one, found in zip(both, series, strict=True):
                found.extend(step / mean for step in one)
    return (SteadyProbe(2, 2, tuple(map(tuple, series)), steps),)


def said(found):
    errors = [p["step_s"] / true - 1 for p, true in found]
    inside = sum(p["low_s"] <= true <= p["high_s"] for p, true in found)
    half = fmean(math.log(p["high_s"] / p["low_s"]) / 2 for p, _ in found)
    return (
        f"{fmean(map(abs, errors)):.1%}, bias {fmean(errors):+.1%}, {inside} of {len(found)} covered, "
        f"half as wide as {half:.1%}"
    )


if __name__ == "__main__":
    main()
