# Ran on commit 8ac0015 (2026-11-15)
"""Does every group get its quota? A dozen groups after one another, each measured over 1.2 s. As root, cgroup v1 or v2.

python phase.py > phase.jsonl
"""

import json
import os
import random
import time

from paceline.launch.cgroup import root_group

PERIODS_US, SHARES, GROUPS = (20_000, 10_000, 5_300, 5_000, 4_000), (0.25, 0.4, 0.7), 12


def spin(seconds):
    """CPU seconds per second of a process that never waits."""
    spent, begun = time.process_time(), time.perf_counter()
    while time.perf_counter() < begun + seconds:
        pass
    return (time.process_time() - spent) / (time.perf_counter() - begun)


def main():
    mount, version = root_group()
    for share in SHARES:
        for period in PERIODS_US:
            found = []
            for number in range(GROUPS):
                group = mount / f"paceline-phase-{os.getpid()}-{number}"
                group.mkdir()
                quota = round(share * period)
                if version == 2:
                    (group / "cpu.max").write_text(f"{quota} {period}")
                else:
                    (group / "cpu.cfs_period_us").write_text(str(period))
                    (group / "cpu.cfs_quota_us").write_text(str(quota))
                time.sleep(random.random() * 0.02)
                (group / "cgroup.procs").write_text(str(os.getpid()))
                spin(0.1)
                found.append(round(spin(1.2), 4))
                (mount / "cgroup.procs").write_text(str(os.getpid()))
                group.rmdir()
            print(json.dumps({"share": share, "period_us": period, "got": found}), flush=True)


if __name__ == "__main__":
    main()
