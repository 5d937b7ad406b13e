# Ran on commit d587fd1 (2026-11-15)
"""How much of the first set 90 % intervals cover, by the constants behind their width.

    python evidence/2026-11-15-lab-2/calibration/scan.py > evidence/2026-11-15-lab-2/calibration/scan.txt

s: discrepancy (project.py), rate: belief in a probed rate (links_probe.py), step: least σ of a step (fit.py). Cells of
two minutes in which another laboratory ran on the same two cores are left out.
"""

import calendar
import json
import sys
from pathlib import Path
from statistics import fmean

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2] / "benchmarks"))

from lab_cells import FIRST  # noqa: E402
from lab_foresee import predictions_for, step_s  # noqa: E402
from lab_verdict import full_name  # noqa: E402
from paceline import fit, links_probe, project  # noqa: E402

DISTURBED = (calendar.timegm((2026, 11, 15, 9, 42, 20)), calendar.timegm((2026, 11, 15, 9, 44, 15)))
HOSTS = {"w4": 4, "w8": 8}
TRIED = (
    (0.01, 0.01, 0.02),
    (0.004, 0.004, 0.003),
    (0.003, 0.003, 0.003),
    (0.003, 0.003, 0.002),
    (0.002, 0.003, 0.002),
)

raw = [json.loads(line) for line in (HERE / "raw.jsonl").read_text().splitlines()]
truth = {full_name(row): step_s(row) for row in raw if row["kind"] == "cell"}
tasks = [
    {name: row.get(name) for name in ("kind", "network", "cap_mb", "compute_s", "launch", "stage")}
    | {"workers": HOSTS[row["launch"]], "nodes": HOSTS[row["launch"]]}
    for row in raw
    if row["launch"] in HOSTS and not (row.get("fp16") or row.get("accumulate"))
    if not DISTURBED[0] <= row["at"] <= DISTURBED[1]
]
for s, rate, step in TRIED:
    project._SEEN_SD, links_probe._RING_SD, fit._SEEN_SIGMA = s, rate, step
    found = [(p, truth[full_name(p)]) for p in predictions_for(raw, tasks, FIRST) if p["what_if"] is None]
    for launch, hosts in HOSTS.items():
        rows = [(p, true) for p, true in found if p["launch"] == launch]
        error = fmean(abs(p["step_s"] / true - 1) for p, true in rows)
        inside = fmean(p["low_s"] <= true <= p["high_s"] for p, true in rows)
        half = fmean((p["high_s"] - p["low_s"]) / 2 / p["step_s"] for p, _ in rows)
        print(
            f"s {s:.1%}, rate {rate:.1%}, step {step:.1%}, {hosts} hosts: {len(rows)} cells, "
            f"mean error {error:.1%}, cover {inside:.0%}, half-width {half:.1%}",
            flush=True,
        )
