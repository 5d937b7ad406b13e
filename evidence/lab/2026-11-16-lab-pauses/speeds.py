# Ran on commit dd33fef (2026-11-16)
"""Recorded cells that compute: what workers differ by at once, where they train alone and where they train together.

python speeds.py FOLDER ...

    within      deviation of one worker's steps in a round, its waits left out
    between     deviation of workers' means in a round, less what their own steps explain
    at once     mean of the slowest of every step over the mean of all, less one, over m(workers)
"""

import json
import math
import sys
from pathlib import Path
from statistics import fmean, variance

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / name) for name in ("src", "benchmarks")]


def main():
    from lab_cells import family
    from lab_foresee import steady_probes
    from paceline.steady import steadiness

    for folder in map(Path, sys.argv[1:]):
        rows = [json.loads(line) for line in (folder / "raw.jsonl").read_text().splitlines()]
        cells = [row for row in rows if row["kind"] == "cell" and row.get("round") is not None]
        for launch, stage in dict.fromkeys(
            (row["launch"], row["stage"]) for row in cells if row.get("alone")
        ):
            here = [row for row in cells if (row["launch"], row["stage"]) == (launch, stage)]
            alone, trained = (
                [row for row in here if bool(row.get("alone")) is kind] for kind in (True, False)
            )
            pair = f"{family(launch)}2"
            two = [row for row in rows if row["kind"] == "cell" and row["launch"] == pair]
            step_s = fmean(fmean(w["steps_s"]) for row in alone for w in row["workers"])
            probed = steadiness(steady_probes(rows, pair), step_s)
            first = [{**row, "workers": row["workers"][:2]} for row in alone]
            print(
                f"{folder.parent.name}/{folder.name} {launch} {stage}: alone {parted(alone)}; "
                f"together {parted(trained)}; at once: probe {probed.at_once:.1%}, two hosts alone {once(first):.1%}, "
                f"two hosts together {once(two):.1%}, all alone {once(alone):.1%}, all together {once(trained):.1%}"
            )


def owns(row):
    if row.get("alone"):
        return [worker["steps_s"] for worker in row["workers"]]
    return [
        [step - wait for step, wait in zip(worker["steps_s"], worker["waits_s"], strict=True)]
        for worker in row["workers"]
    ]


def parted(rows):
    inside, apart = [], []
    for row in rows:
        own = owns(row)
        mean = fmean(map(fmean, own))
        within = fmean(map(variance, own)) / mean**2
        inside.append(within)
        apart.append(variance(map(fmean, own)) / mean**2 - within / len(own[0]))
    between = max(0.0, fmean(apart))
    return f"within {math.sqrt(fmean(inside)):.1%}, between {math.sqrt(between):.1%}"


def once(rows):
    import numpy as np

    from paceline.step_law import expected_maximum

    found = []
    for row in rows:
        steps = list(zip(*owns(row), strict=True))
        longer = fmean(map(max, steps)) / fmean(map(fmean, steps)) - 1
        found.append(longer / float(expected_maximum(np.array([float(len(steps[0]))]))[0]))
    return fmean(found)


if __name__ == "__main__":
    main()
