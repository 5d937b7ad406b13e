# Ran on commit 5ea6e11 (2026-11-16)
"""The same cells, judged afterwards, if what all hosts did alone at the same time told how steady they are.

python all_hosts.py         no prediction: the profiles of all rounds of a cell are used for each of them
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "benchmarks"), str(HERE.parents[1] / "src")]

import lab_foresee  # noqa: E402
from lab_cells import SECOND  # noqa: E402
from lab_rounds import TASK, cell_of, full_name, over_rounds  # noqa: E402
from paceline.records import SteadyProbe  # noqa: E402

for name in ("own-before", "own-cores", "four", "eight"):
    raw = [json.loads(line) for line in (HERE / name / "raw.jsonl").open()]
    written = [json.loads(line) for line in (HERE / name / "predictions.jsonl").open()]
    profiles = defaultdict(list)
    for row in raw:
        if row.get("alone"):
            profiles[row["launch"], cell_of(row)].append([w["steps_s"] for w in row["workers"]])
    truth = {full_name(r): r for r in raw if r["kind"] == "cell" and not r.get("alone")}
    for launch in sorted({p["launch"] for p in written}):
        found = []
        for p in (p for p in written if p["launch"] == launch):
            rounds = profiles[launch, cell_of(p)]
            series = tuple(tuple(s for steps in rounds for s in steps[i]) for i in range(p["workers"]))
            seen = SteadyProbe(p["workers"], p["workers"], series)
            lab_foresee.steady_probes = lambda _raw, _launch, seen=seen: (seen,)
            found += lab_foresee.predictions_for(raw, [{key: p.get(key) for key in TASK}], SECOND)
        cells = over_rounds(found, truth)
        errors = [p["step_s"] / s - 1 for p, s in cells]
        covered = sum(p["low_s"] <= s <= p["high_s"] for p, s in cells)
        print(
            f"{name} {launch}: {len(cells)} cells, {fmean(map(abs, errors)):.1%} (bias {fmean(errors):+.1%}), "
            f"{covered} covered"
        )
