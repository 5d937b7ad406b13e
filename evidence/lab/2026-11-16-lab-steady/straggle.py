# Ran on commit 5ea6e11 (2026-11-16)
"""What workers waited for the slowest, what one worker's steps make of it, and what hosts alone at the same time show.

python straggle.py          reads the cells that compute of ../2026-11-15-lab-real and of this folder
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "benchmarks"), str(HERE.parents[1] / "src")]

import numpy as np  # noqa: E402

from lab_foresee import name_of, steady_probes  # noqa: E402
from lab_rounds import own_s  # noqa: E402
from paceline.stats import deviation  # noqa: E402
from paceline.steady import steadiness, variation  # noqa: E402
from paceline.step_law import expected_maximum  # noqa: E402

BEFORE = HERE.parent / "2026-11-15-lab-real"
FOLDERS = [
    BEFORE, *(BEFORE / name for name in ("rounds-4x6", "period-4ms", "eight-hosts", "eight-hosts-4x6")),
    *(BEFORE / "calibration" / name for name in ("own-cores-2", "own-cores-3")),
    *(BEFORE / "calibration" / name for name in ("quarter-core-4ms", "quarter-core-4ms-2")),
    *(HERE / name for name in ("own-before", "own-cores", "four", "eight")),
]  # fmt: skip


def slowest(series):
    """The mean of the slowest of every step, over the mean of all, minus one."""
    together = np.array(series)
    return float(together.max(axis=0).mean() / together.mean()) - 1.0


print(
    "| run | launch | waited for the slowest | foreseen by one worker's steps | hosts alone at once "
    "| the probe of two |"
)
print("|---|---|---|---|---|---|")
for folder in FOLDERS:
    if not (folder / "raw.jsonl").exists():
        continue
    raw = [json.loads(line) for line in (folder / "raw.jsonl").open()]
    for launch in sorted({r["launch"] for r in raw if r.get("alone")}):
        alone, trained = defaultdict(list), defaultdict(list)
        for r in raw:
            if r["kind"] == "cell" and r["launch"] == launch:
                (alone if r.get("alone") else trained)[r["stage"], *name_of(r)].append(r)
        probes = steady_probes(raw, launch.rstrip("0123456789") + "2")
        found = []
        for cell, rounds in trained.items():
            workers = len(rounds[0]["workers"])
            most = float(expected_maximum(np.array([float(workers)]))[0])
            one = [w["steps_s"] for r in alone[cell] for w in r["workers"]]
            noise = fmean((deviation(steps) or 0.0) / fmean(steps) for steps in one)
            steady = steadiness(probes, fmean(map(fmean, one)))
            found.append((
                fmean(slowest([own_s(w) for w in r["workers"]]) for r in rounds), noise * most,
                fmean(slowest([w["steps_s"] for w in r["workers"]]) for r in alone[cell]),
                variation(steady, noise) * most if steady else float("nan"),
            ))  # fmt: skip
        means = np.array(found).mean(axis=0)
        name = folder.name if folder != BEFORE else "rounds-8x6"
        print(
            f"| {name} | {launch} | " + " | ".join("–" if np.isnan(m) else f"{m:.1%}" for m in means) + " |"
        )
