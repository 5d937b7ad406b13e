# Ran on commit 9051303 (2026-11-15)
"""How wide an interval must be from 4 to 8 GPUs of a node: chosen on one half of the networks, held against the other.

    python evidence/2026-11-15-prediction/second_half.py DATA > evidence/2026-11-15-prediction/second_half.txt

Every published series of 1, 2, 4 and 8 GPUs is fitted at 1, 2 (and 4), with no discrepancy beyond that of the ensemble;
then  s² = 0.09² (1 + 0.1 log2(N/N_fit)) + min(c · loss, m)²  for N > 4, where loss is the foreseen log of the step over
that of one GPU. c and m are those with the smallest interval score (width + 20 × what is missed, in logs) on every
other network in the alphabet; coverage is reported on the rest.
"""

import csv
import itertools
import re
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import paceline.project as project
import prediction

SCALES, MOST = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0), (0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5)


def main() -> None:
    project._INSIDE_SD = project._MOST_LOST_SD = 1e-6
    path = Path(sys.argv[1]) / "published_scaling_dev.csv"
    cases: dict[str, list[tuple]] = defaultdict(
        list
    )  # network -> (protocol, N, N_fit, loss, truth, low, high), logs around the prediction
    for (network, batch), steps in published(path).items():
        for fitted in ((1, 2), (1, 2, 4)):
            text = "gpus,per_gpu_batch,throughput\n" + "".join(
                f"{n},{batch},{n * batch / steps[n]}\n" for n in fitted
            )
            wanted = [(n, 1, batch, steps[n]) for n in steps if n not in fitted]
            for o in prediction.outcomes(network, text, wanted):
                if o.value and o.low and o.high:
                    loss = max(0.0, np.log(o.value / steps[1]))
                    logs = (np.log(o.truth / o.value), np.log(o.value / o.low), np.log(o.high / o.value))
                    cases[network[0]].append((fitted, o.workers, max(fitted), loss, *logs))
    networks = sorted(cases)
    for half in (0, 1):
        chosen_on, rest = networks[half::2], networks[1 - half :: 2]
        best = min(itertools.product(SCALES, MOST), key=lambda p: score([cases[n] for n in chosen_on], p))
        print(f"chosen on {', '.join(chosen_on)}: c {best[0]:g}, m {best[1]:g}")
        for name, parameters in (("before", (0.0, 0.0)), ("chosen", best), ("used", (2.0, 0.4))):
            for fitted in ((1, 2), (1, 2, 4)):
                left = [[case for case in cases[n] if case[0] == fitted] for n in rest]
                inside = [np.mean([missed(case, parameters)[1] == 0 for case in own]) for own in left if own]
                wide = [np.mean([missed(case, parameters)[0] for case in own]) for own in left if own]
                print(f"   the others, {name:6}, from {fitted}: coverage {np.mean(inside):.1%}, "
                      f"high/low {np.exp(np.mean(wide)):.2f}")  # fmt: skip


def published(path: Path) -> dict[tuple, dict[int, float]]:
    """Seconds per step at 1, 2, 4 and 8 GPUs by series: network, device, precision, and its batch per GPU."""
    found: dict[tuple, dict[int, tuple[float, int]]] = defaultdict(dict)
    for row in csv.DictReader(path.open()):
        series = (row["model"], re.sub(r"\d+x ?", "", row["gpu"]).strip(), row["precision"])
        found[series][int(row["n_gpus"])] = (float(row["value"]), int(float(row["per_gpu_batch"])))
    return {
        (series, points[1][1]): {n: n * points[n][1] / points[n][0] for n in sorted(points)}
        for series, points in found.items()
        if set(points) == {1, 2, 4, 8} and len({batch for _, batch in points.values()}) == 1
    }


def missed(case: tuple, parameters: tuple[float, float]) -> tuple[float, float]:
    """Width of the interval and by how much the truth lies outside, in logs."""
    _, count, largest, loss, truth, below, above = case
    again = min(parameters[0] * loss, parameters[1]) if count > 4 else 0.0
    spread = 1.645 * np.sqrt(0.09**2 * (1 + 0.1 * np.log2(count / largest)) + again**2)
    below, above = np.hypot(below, spread), np.hypot(above, spread)
    return below + above, max(0.0, -truth - below, truth - above)


def score(groups: list[list[tuple]], parameters: tuple[float, float]) -> float:
    return float(
        np.mean([np.mean([w + 20 * m for w, m in (missed(c, parameters) for c in g)]) for g in groups])
    )


if __name__ == "__main__":
    main()
