# Ran on commit ff216d3 (2026-11-16)
"""Of what two hosts differed by in a probe: what they kept over all bursts, and what changed from burst to burst.

python kept.py FOLDER ...
"""

import json
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]
STEP_S = {"own": 0.1, "real": 0.25, "eighth": 0.55}


def main():
    from lab_cells import family
    from lab_foresee import steady_probes
    from paceline.steady import bursts, steadiness

    for folder in map(Path, sys.argv[1:]):
        rows = [json.loads(line) for line in (folder / "raw.jsonl").read_text().splitlines()]
        launch = rows[0]["launch"]
        for number, probe in enumerate(steady_probes(rows, launch)):
            each = bursts(probe).mean(axis=2)
            apart = (each - each.mean(axis=0)) / each.mean()
            kept = float(np.std(apart.mean(axis=1), ddof=1))
            redrawn = float(
                np.sqrt(((apart - apart.mean(axis=1, keepdims=True)) ** 2).sum() / (each.shape[1] - 1))
            )
            found = steadiness([probe], STEP_S[family(launch)])
            print(
                f"{folder.parent.name}/{folder.name} probe {number}: at once {found.at_once:.3f} (of that known to"
                f" {found.sd:.2f}); kept {kept:.3f}, from burst to burst {redrawn:.3f}"
            )


if __name__ == "__main__":
    main()
