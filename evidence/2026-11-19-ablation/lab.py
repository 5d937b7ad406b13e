# Ran on commit 681c486 (2026-11-19)
"""Recorded cells of the laboratory, foreseen again with one term of the law left out. No predictions.

python lab.py TREE FOLDER SET LAUNCH TERM ...       TREE: a checkout; TERM: none, or a name of TERMS
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import fmean

sys.path[:0] = [str(Path(sys.argv[1]).resolve() / name) for name in ("src", "benchmarks")]


def without(term):
    """Leaves a term out, in this process."""
    import paceline.analysis.outlook as outlook
    from paceline.core import calibration

    if term == "contention":
        calibration.CONTENTION = replace(calibration.CONTENTION, value=0.0)
    elif term == "busy-hops":
        known = outlook.with_contention

        def calm(observed, between):
            found = known(observed, between)
            return found if found.overlap is None else replace(found, overlap=replace(found.overlap, busy_hop_s=0.0))

        outlook.with_contention = calm
    elif term == "after-wait":
        steady = outlook.with_steadiness
        outlook.with_steadiness = lambda observed, cluster: replace(steady(observed, cluster), after_wait=None)
    elif term == "ring-norm":
        calibration.RING_NORM = replace(calibration.RING_NORM, value=1)
    elif term == "late-worker":
        import paceline.predict.observations as observations

        observations._late_ratio = lambda profile: 0.0
    elif term != "none":
        raise SystemExit(f"no term {term}")


def foreseen(job):
    from lab_cells import SETS
    from lab_foresee import predictions_for, step_s

    raw, row, name, term = job
    without(term)
    task = {key: row.get(key) for key in ("launch", "stage", "network", "cap_mb", "compute_s", "late")}
    task |= {"workers": len(row["workers"]), "nodes": len(row["workers"]), "round": None}
    found = [p for p in predictions_for(raw, [task], SETS[name]) if p["what_if"] is None]
    true = step_s(row)
    return found[0]["step_s"] / true - 1, found[0]["low_s"] <= true <= found[0]["high_s"]


def main():
    from lab_prediction import rows

    folder, name, launch, *terms = Path(sys.argv[2]), *sys.argv[3:]
    raw = list(rows(folder / "raw.jsonl"))
    cells = [r for r in raw if r["kind"] == "cell" and r["launch"] == launch and not r.get("alone")]
    cells = [r for r in cells if not r.get("fp16") and not r.get("accumulate")]
    for term in terms:
        with ProcessPoolExecutor(2, max_tasks_per_child=None) as pool:
            found = list(pool.map(foreseen, [(raw, row, name, term) for row in cells], chunksize=8))
        errors = [error for error, _ in found]
        print(
            f"{folder.parent.name}/{folder.name} {launch}, without {term}: {len(cells)} cells, mean error "
            f"{fmean(map(abs, errors)):.2%}, bias {fmean(errors):+.2%}, {sum(c for _, c in found)} covered",
            flush=True,
        )


if __name__ == "__main__":
    main()
