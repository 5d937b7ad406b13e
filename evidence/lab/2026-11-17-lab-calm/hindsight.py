# Ran on commit a3f8322 (2026-11-17)
"""Recorded cells of sleep, foreseen by the law of a source tree. No predictions.

python hindsight.py TREE SET FOLDER LAUNCH ...        TREE: a checkout, `git worktree add TREE COMMIT`
"""

import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import fmean

sys.path[:0] = [str(Path(sys.argv[1]).resolve() / name) for name in ("src", "benchmarks")]


def foreseen(job):
    """Computation, error and whether the interval covers, of one cell."""
    from lab_cells import SETS
    from lab_foresee import predictions_for, step_s

    raw, row = job
    task = {name: row.get(name) for name in ("launch", "stage", "network", "cap_mb", "compute_s", "late")}
    task |= {"workers": len(row["workers"]), "nodes": len(row["workers"]), "round": None}
    found = [p for p in predictions_for(raw, [task], SETS[sys.argv[2]]) if p["what_if"] is None]
    true = step_s(row)
    return row["compute_s"], found[0]["step_s"] / true - 1, found[0]["low_s"] <= true <= found[0]["high_s"]


def main():
    from lab_prediction import rows

    folder = Path(sys.argv[3])
    raw = list(rows(folder / "raw.jsonl"))
    for launch in sys.argv[4:]:
        cells = [r for r in raw if r["kind"] == "cell" and r["launch"] == launch]
        cells = [r for r in cells if not r.get("fp16") and not r.get("accumulate")]
        with ProcessPoolExecutor() as pool:
            found = list(pool.map(foreseen, [(raw, row) for row in cells]))
        by = defaultdict(list)
        for compute, error, covered in found:
            by[f"{launch} sleeps {compute} s"].append((error, covered))
            by[f"{launch} all"].append((error, covered))
        for name, each in sorted(by.items()):
            errors, inside = [error for error, _ in each], sum(covered for _, covered in each)
            print(
                f"{folder.parent.name}/{folder.name} {name}: {len(each)} cells, "
                f"mean error {fmean(map(abs, errors)):.2%}, bias {fmean(errors):+.2%}, {inside} covered"
            )


if __name__ == "__main__":
    main()
