# Ran on commit f9511e9 (2026-11-16)
"""Recorded cells that compute: what every worker computes in a step, alone and in training, in milliseconds.

python ranks.py FOLDER ...
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean


def main():
    for folder in map(Path, sys.argv[1:]):
        found = defaultdict(lambda: defaultdict(list))
        for row in map(json.loads, (folder / "raw.jsonl").read_text().splitlines()):
            if row["kind"] != "cell" or row.get("round") is None or row["launch"].endswith("2"):
                continue
            kind = "alone" if row.get("alone") else "train"
            for rank, worker in enumerate(row["workers"]):
                waits = [0.0] * len(worker["steps_s"]) if row.get("alone") else worker["waits_s"]
                owns = [step - wait for step, wait in zip(worker["steps_s"], waits, strict=True)]
                found[row["launch"], row["stage"], row["network"], row["cap_mb"], kind][rank].append(
                    fmean(owns)
                )
        for name, ranks in sorted(found.items(), key=str):
            print(folder.name, *name, *(round(1e3 * fmean(ranks[rank])) for rank in sorted(ranks)))


if __name__ == "__main__":
    main()
