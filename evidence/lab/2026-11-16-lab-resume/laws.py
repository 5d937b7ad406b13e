# Ran on commit f9511e9 (2026-11-16)
"""Recorded cells whose probe paused, foreseen by the law of a source tree. No predictions.

python laws.py TREE FOLDER ...        TREE: a checkout, `git worktree add TREE COMMIT`
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(Path(sys.argv[1]).resolve() / name) for name in ("src", "benchmarks")]
sys.path.append(str(HERE.parent / "2026-11-16-lab-pauses"))


def main():
    from again import said

    import lab_foresee
    from lab_bottleneck import bottlenecks
    from lab_cells import COMPUTING, SETS, family
    from lab_prediction import rows
    from lab_rounds import TASK, full_name, over_rounds

    for folder in map(Path, sys.argv[2:]):
        raw = list(rows(folder / "raw.jsonl"))
        truth = {full_name(r): r for r in raw if r["kind"] == "cell" and not r.get("alone")}
        asked = [p for p in rows(folder / "predictions.jsonl") if family(p["launch"]) in COMPUTING]
        tasks = [{name: p[name] for name in TASK} for p in asked if full_name(p) in truth]
        foreseen = list(lab_foresee.predictions_for(raw, tasks, SETS["second"]))
        for launch in dict.fromkeys(p["launch"] for p in foreseen):
            single = [p for p in foreseen if p["launch"] == launch]
            lines = []
            bottlenecks(single, truth, lines, {})
            print(
                f"{folder.parent.name}/{folder.name} {launch}: {said(over_rounds(single, truth))}; {lines[0]}"
            )


if __name__ == "__main__":
    main()
