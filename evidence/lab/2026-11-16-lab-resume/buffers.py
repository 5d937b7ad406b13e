# Ran on commit f9511e9 (2026-11-16)
"""Recorded cells of a network with buffers, foreseen again with these counted. No predictions.

python buffers.py FOLDER ...
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / name) for name in ("src", "benchmarks")]
sys.path.append(str(HERE.parent / "2026-11-16-lab-pauses"))
BUFFERS = {"real-waves": 96 * 640 * 4}  # bytes: the rows of that time hold those of parameters alone


def main():
    from again import said

    import lab_foresee
    from lab_cells import SETS
    from lab_prediction import rows
    from lab_rounds import TASK, full_name, over_rounds

    for folder in map(Path, sys.argv[1:]):
        raw = [{**row, "bytes": row["bytes"] + BUFFERS.get(row["network"], 0)} if row["kind"] == "cell" else row
               for row in rows(folder / "raw.jsonl")]  # fmt: skip
        truth = {full_name(r): r for r in raw if r["kind"] == "cell" and not r.get("alone")}
        asked = [p for p in rows(folder / "predictions.jsonl") if full_name(p) in truth]
        foreseen = list(
            lab_foresee.predictions_for(
                raw, [{name: p[name] for name in TASK} for p in asked], SETS["second"]
            )
        )
        cells = over_rounds(foreseen, truth)
        single = [(p, lab_foresee.step_s(truth[full_name(p)])) for p in foreseen]
        print(f"{folder.name}: {said(cells)}; single {said(single)}")
        for p, true in cells:
            print(f"    {p['stage']} {p['network']} {p['cap_mb']} MB: {p['step_s'] / true - 1:+.1%}")


if __name__ == "__main__":
    main()
