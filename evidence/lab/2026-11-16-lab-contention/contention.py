# Ran on commit 50be499 (2026-11-16)
"""How much longer workers compute in a training than alone, against the CPU time that the exchange took meanwhile.

python contention.py        runs of cells that compute, with small buckets (most of the exchange hides) and with one

    computed longer    a worker's own time in trainings over its steps alone, minus 1, mean over cells
    if all of it       what that would be if every CPU second of the exchange that hid came out of computing
"""

import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean

CORES = {"real4": 0.25, "eighth8": 0.125, "own4": 2.0, "own8": 2.0}
HERE = Path(__file__).resolve().parent
BEFORE, STEADY = HERE.parent / "2026-11-15-lab-real", HERE.parent / "2026-11-16-lab-steady"
RUNS = (
    BEFORE, BEFORE / "period-4ms", BEFORE / "rounds-4x6", BEFORE / "rounds-8x4", BEFORE / "eight-hosts",
    BEFORE / "eight-hosts-4x6", STEADY / "four", STEADY / "eight", STEADY / "own-cores", HERE / "four", HERE / "eight",
)  # fmt: skip


def cells_of(run: Path) -> dict:
    """Rounds of every cell, alone and together."""
    found = defaultdict(lambda: ([], []))
    for line in (run / "raw.jsonl").open():
        row = json.loads(line)
        if row["kind"] == "cell" and row["launch"] in CORES:
            found[row["launch"], row["stage"], row["network"], row["cap_mb"]][not row.get("alone")].append(
                row
            )
    return {cell: both for cell, both in found.items() if all(both)}


def over(rows: list, value) -> float:
    """The mean over rounds, workers and steps."""
    return fmean(each for row in rows for worker in row["workers"] for each in value(worker))


def own(worker: dict) -> list[float]:
    """What a worker computed in every step."""
    return [step - wait for step, wait in zip(worker["steps_s"], worker["waits_s"], strict=True)]


def main() -> None:
    """A line for every run, launch and cap."""
    print(
        "| run | launch | cap | cells | computed longer | if all of it | hidden | ns per byte |\n|"
        + "---|" * 8
    )
    for run in RUNS:
        groups = defaultdict(list)
        for (launch, stage, _, cap), (alone, trained) in cells_of(run).items():
            workers = len(trained[0]["workers"])
            carried = 2 * (workers - 1) / workers * trained[0]["bytes"]
            move_s = carried * 8e-6 / float(stage.removesuffix("mbit"))
            alone_s = over(alone, lambda w: w["steps_s"])
            own_s = over(trained, own)
            slowest_s = fmean(
                max(step) for row in trained for step in zip(*map(own, row["workers"]), strict=True)
            )
            shown_s = over(trained, lambda w: w["steps_s"]) - slowest_s
            hidden = min(1.0, max(0.0, 1 - shown_s / move_s))
            cpu_s = over(trained, lambda w: [w["cpu_s_per_step"]]) - over(
                alone, lambda w: [w["cpu_s_per_step"]]
            )
            groups[launch, cap].append((own_s / alone_s - 1, hidden, carried, cpu_s, alone_s))
        for launch in sorted({launch for launch, _ in groups}):
            mine = [cell for key, cells in groups.items() if key[0] == launch for cell in cells]
            per_byte = sum(cell[3] for cell in mine) / sum(cell[2] for cell in mine)
            for cap in sorted(cap for name, cap in groups if name == launch):
                cells = groups[launch, cap]
                whole = fmean(h * per_byte * carried / CORES[launch] / a for _, h, carried, _, a in cells)
                longer, hidden = (fmean(cell[k] for cell in cells) for k in (0, 1))
                whole = whole if CORES[launch] < 1 else 0.0
                print(
                    f"| {run.name} | {launch} | {cap} MB | {len(cells)} | {longer:+.1%} | {whole:+.1%} | "
                    f"{hidden:.0%} | {per_byte * 1e9:.1f} |"
                )


if __name__ == "__main__":
    main()
