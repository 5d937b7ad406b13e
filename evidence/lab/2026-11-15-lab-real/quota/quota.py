# Ran on commit 5a06415 (2026-11-15)
"""What a CPU quota gives to one that waits now and then, by the length of its period. As root.

    python quota.py > raw.jsonl

Products of matrices that take 0.4 s at a quarter of a core, without a break and with breaks of 50 and 200 ms on average
between them. A core of a quarter's speed would take the same time for all.
"""

import json
import os
import random
import time
from statistics import fmean

import torch

from paceline.launch.cgroup import root_group

PERIODS_US, BREAKS_S, REPEATS, PIECES = (20_000, 10_000, 4_000), (0.0, 0.05, 0.2), 5, 8


def work(matrix, count):
    for _ in range(count):
        matrix @ matrix


def measured(matrix, count, break_s):
    """Seconds and CPU seconds of a piece of work, means over pieces."""
    seconds, cpu_s = [], []
    for _ in range(PIECES):
        if break_s:
            time.sleep(break_s * (0.5 + random.random()))
        begun, spent = time.perf_counter(), time.process_time()
        work(matrix, count)
        seconds.append(time.perf_counter() - begun)
        cpu_s.append(time.process_time() - spent)
    return fmean(seconds), fmean(cpu_s)


def main():
    mount, version = root_group()
    group = mount / f"paceline-quota-{os.getpid()}"
    group.mkdir()
    torch.set_num_threads(1)
    random.seed(0)
    matrix = torch.randn(256, 256)
    try:
        (group / "cgroup.procs").write_text(str(os.getpid()))
        for repeat in range(REPEATS):
            for period in PERIODS_US:
                if version == 2:
                    (group / "cpu.max").write_text(f"{period // 4} {period}")
                else:
                    (group / "cpu.cfs_quota_us").write_text("-1")
                    (group / "cpu.cfs_period_us").write_text(str(period))
                    (group / "cpu.cfs_quota_us").write_text(str(period // 4))
                work(matrix, 100)
                begun = time.perf_counter()
                work(matrix, 400)
                count = round(0.4 * 400 / (time.perf_counter() - begun))
                for break_s in BREAKS_S:
                    seconds, cpu_s = measured(matrix, count, break_s)
                    row = {
                        "period_us": period,
                        "break_s": break_s,
                        "repeat": repeat,
                        "seconds": seconds,
                        "cpu_s": cpu_s,
                    }
                    print(json.dumps(row | {"of_its_share": 4 * cpu_s / seconds}), flush=True)
    finally:
        (mount / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


if __name__ == "__main__":
    main()
