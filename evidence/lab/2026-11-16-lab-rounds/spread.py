# Ran on commit ff216d3 (2026-11-16)
"""What workers differed by at once, and what computing took longer than alone: as measured and by the law.

python spread.py FOLDER ...
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]


def main():
    from lab_foresee import profile_of, steady_probes
    from lab_rounds import own_s
    from paceline.resume import resumed
    from paceline.steady import steadiness, variation
    from paceline.step_law import expected_maximum

    for folder in map(Path, sys.argv[1:]):
        rows = [json.loads(line) for line in (folder / "raw.jsonl").read_text().splitlines()]
        probes = steady_probes(rows, rows[0]["launch"])
        trained, alone = defaultdict(list), defaultdict(list)
        for row in rows:
            if row["kind"] == "cell" and "round" in row and not row["launch"].endswith("2"):
                name = (row["launch"], row["network"], row["cap_mb"], row["stage"])
                if row.get("alone"):
                    alone[name].append(row)
                else:
                    trained[name] += zip(*map(own_s, row["workers"]), strict=True)
        for name, steps in trained.items():
            own = np.array(steps)
            most = float(expected_maximum(np.array([float(own.shape[1])]))[0])
            mean_s = fmean(fmean(w["steps_s"]) for row in alone[name] for w in row["workers"])
            steady = steadiness(probes, mean_s)
            known = [profile_of(row) for row in alone[name]]
            noise = [p.step_noise_s.value / p.step_s.value for p in known if p.step_noise_s is not None]
            told = fmean(variation(steady, each) for each in noise or [None])
            waited = resumed(probes, mean_s, steady=steady, steps_ratio=fmean(noise) if noise else None)
            at_once = (own.max(axis=1).mean() / own.mean() - 1) / most
            print(
                f"{folder.name} {' '.join(map(str, name))}: at once {at_once:.3f},"
                f" law {told:.3f}; computing {1e3 * (own.mean() - mean_s):+.0f} ms on {1e3 * mean_s:.0f},"
                f" law {1e3 * waited.seconds:+.0f}"
            )


if __name__ == "__main__":
    main()
