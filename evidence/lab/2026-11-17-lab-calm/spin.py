# Ran on commit a3f8322 (2026-11-17)
"""Do hosts that sleep compute the same, however many share a machine? 1, 8, 1 and 2 hosts, cores awake or not. As root.

python spin.py TREE OUT (awake | asleep)        TREE: a checkout, `git worktree add TREE COMMIT`
"""

import sys
from pathlib import Path
from statistics import median

sys.path[:0] = [str(Path(sys.argv[1]).resolve() / name) for name in ("src", "benchmarks")]


def main():
    from lab_cells import SETS, Launch, cell
    from lab_prediction import _awake, measure, rows
    from lab_rounds import own_s

    out = Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    grid = tuple(
        cell(n, layers, 8, c, 5) for n, layers in SETS["second"].networks.items() for c in (0.22, 0.45)
    )
    with _awake(sys.argv[3] == "awake"):
        for name, hosts, rate in (("w1", 1, None), ("w8", 8, 350), ("w1b", 1, None), ("w2", 2, 350)):
            measure(Launch(name, hosts, 1, ((rate, grid),)), out, None, real_time=True)
    for row in rows(out / "raw.jsonl"):
        own = median(second for worker in row["workers"] for second in own_s(worker))
        print(
            f"{row['launch']:4} {row['network']:7} sleeps {row['compute_s']} s: computes {1e3 * own:.2f} ms"
        )


if __name__ == "__main__":
    main()
