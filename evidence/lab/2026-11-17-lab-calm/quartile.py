# Ran on commit a3f8322 (2026-11-17)
"""Recorded cells, foreseen from the median of a probe's passes and from lower quantiles of them. No predictions.

python quartile.py TREE        TREE: a checkout, `git worktree add TREE COMMIT`
"""

import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import fmean

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(Path(sys.argv[1]).resolve() / name) for name in ("src", "benchmarks")]
COMPUTING = (
    "2026-11-17-lab-calm/own", "2026-11-16-lab-rounds/own", "2026-11-16-lab-rounds/four", "2026-11-16-lab-rounds/eight",
    "2026-11-16-lab-resume/own-again", "2026-11-16-lab-resume/four-last", "2026-11-16-lab-resume/eight-last",
    "2026-11-16-lab-resume/own", "2026-11-16-lab-resume/four", "2026-11-16-lab-resume/eight",
    "2026-11-16-lab-resume/four-again",
)  # fmt: skip
SLEEPING = ("2026-11-17-lab-calm/asleep", "2026-11-16-lab-rounds/sleep", "2026-11-15-lab-2")
LAUNCHES = ("own4", "own8", "real4", "eighth8", "w4", "w8", "w16", "late4", "late8", "lag4", "lag8")


def judged(job):
    """One launch of a folder, foreseen with one quantile."""
    import lab_foresee
    from lab_prediction import rows
    from lab_rounds import TASK, full_name, over_rounds
    from paceline import links_probe

    name, launch, share = job
    links_probe._middle = lambda values: np.nanquantile(values, share, axis=0)
    raw = list(rows(HERE.parent / name / "raw.jsonl"))
    truth = {full_name(r): r for r in raw if r["kind"] == "cell" and not r.get("alone")}
    asked = [p for p in rows(HERE.parent / name / "predictions.jsonl") if p["launch"] == launch]
    asked = [p for p in asked if p["what_if"] is None and full_name(p) in truth]
    tasks = [{key: p.get(key) for key in (*TASK, "late")} for p in asked]
    if not tasks or (name in SLEEPING) == launch.startswith(("own", "real", "eighth")):
        return None
    from lab_cells import SETS

    warnings.simplefilter("ignore")  # sizes that no pass has
    found = [p for p in lab_foresee.predictions_for(raw, tasks, SETS["second"]) if p["what_if"] is None]
    single = [(p, lab_foresee.step_s(truth[full_name(p)])) for p in found]
    cells = over_rounds(found, truth) if name in COMPUTING else single
    errors = [p["step_s"] / true - 1 for p, true in cells]
    inside = sum(p["low_s"] <= true <= p["high_s"] for p, true in cells)
    return (
        f"{name:31} {launch:7} quantile {share:4}: {len(cells):2} cells, mean error {fmean(map(abs, errors)):.2%}, "
        f"bias {fmean(errors):+.2%}, {inside} covered"
    )


def main():
    shares = (0.5, 0.25, 0.1)
    jobs = [(name, launch, share) for name in COMPUTING + SLEEPING for launch in LAUNCHES for share in shares]
    with ProcessPoolExecutor() as pool:
        for line in pool.map(judged, jobs):
            if line is not None:
                print(line, flush=True)


if __name__ == "__main__":
    main()
