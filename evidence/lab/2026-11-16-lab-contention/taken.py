# Ran on commit 50be499 (2026-11-16)
"""Which share of a hidden exchange's CPU time makes cells that compute unbiased: on runs that were measured before.

python taken.py        no prediction: 2.8 ns per byte, as the trainings took; steadiness from the rounds up to each
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "benchmarks"), str(HERE.parents[1] / "src")]

from contention import BEFORE, STEADY  # noqa: E402

import lab_foresee  # noqa: E402
from lab_cells import SECOND  # noqa: E402
from lab_rounds import TASK, cell_of, full_name, over_rounds  # noqa: E402
from paceline import step_law  # noqa: E402
from paceline.records import SteadyProbe  # noqa: E402

RUNS = (
    BEFORE, BEFORE / "period-4ms", BEFORE / "rounds-4x6", BEFORE / "rounds-8x4", BEFORE / "eight-hosts",
    BEFORE / "eight-hosts-4x6", STEADY / "four", STEADY / "eight",
)  # fmt: skip
NS_PER_BYTE = 2.8

print("| share | " + " | ".join(run.name for run in RUNS) + " | all |\n|" + "---|" * (len(RUNS) + 2))
for taken in (0.0, 0.55, 0.8, 1.0):
    step_law._TAKEN = taken
    errors, said = [], []
    for run in RUNS:
        raw = [json.loads(line) for line in (run / "raw.jsonl").open()]
        written = [json.loads(line) for line in (run / "predictions.jsonl").open()]
        rounds = defaultdict(dict)
        for row in raw:
            if row["kind"] == "probe":
                for each in row["rows"]:
                    if each["record"] == "row":
                        each["cpu_s"] = [NS_PER_BYTE * 1e-9 * each["bytes"]]
            if row.get("alone"):
                rounds[cell_of(row)][row["round"]] = [worker["steps_s"] for worker in row["workers"]]
        truth = {full_name(r): r for r in raw if r["kind"] == "cell" and not r.get("alone")}
        found = []
        for p in written:
            seen = [steps for number, steps in rounds[cell_of(p)].items() if number <= p["round"]]
            series = tuple(tuple(s for steps in seen for s in steps[i]) for i in range(p["workers"]))
            steady = (SteadyProbe(p["workers"], p["workers"], series),)
            lab_foresee.steady_probes = lambda _raw, _launch, steady=steady: steady
            found += lab_foresee.predictions_for(raw, [{key: p.get(key) for key in TASK}], SECOND)
        cells = [(p["cap_mb"], p["step_s"] / s - 1) for p, s in over_rounds(found, truth)]
        small = [error for cap, error in cells if cap < 2]
        one = [error for cap, error in cells if cap >= 2]
        errors += [error for _, error in cells]
        said.append(f"{fmean(abs(e) for _, e in cells):.1%} ({fmean(small):+.1%}, {fmean(one):+.1%})")
    print(
        f"| {taken} | " + " | ".join(said) + f" | {fmean(map(abs, errors)):.1%} ({fmean(errors):+.1%}) |",
        flush=True,
    )
