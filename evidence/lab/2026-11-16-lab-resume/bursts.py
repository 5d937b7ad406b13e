# Ran on commit f9511e9 (2026-11-16)
"""What the probe's bursts take after a pause: pieces by their place in a burst, and what that makes of a step.

python bursts.py FOLDER ...
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / name) for name in ("src", "benchmarks")]


def main():
    from lab_foresee import steady_probes
    from lab_prediction import rows
    from paceline.resume import resumed
    from paceline.steady import bursts

    for folder in map(Path, sys.argv[1:]):
        raw = list(rows(folder / "raw.jsonl"))
        launch = next(row["launch"] for row in raw if row["kind"] == "probe")
        probes = steady_probes(raw, launch)
        for probe in probes:
            each = bursts(probe)
            place = each.mean(axis=(0, 1)) / each[:, :, each.shape[2] // 2 :].mean()
            first = ", ".join(f"{value:.3f}" for value in place[:4])
            print(
                f"{folder.parent.name}/{folder.name} {launch}: {each.shape[1]} bursts of {each.shape[2]} pieces of "
                f"{each.mean() * 1e3:.0f} ms; the first four over those of the second half: {first}"
            )
        for step_s in (0.05, 0.1, 0.2, 0.4, 0.8):
            found = resumed(probes, step_s)
            print(
                f"    a step of {step_s} s: {found.seconds * 1e3:+.1f} ms, give or take {found.sd_s * 1e3:.1f}"
            )


if __name__ == "__main__":
    main()
