# Ran on commit 5a06415 (2026-11-15)
"""What gloo's threads do in an exchange of 17 kB between two workers of this machine: nothing of Paceline runs here.

    gcc -shared -fPIC -O2 -o count.so count.c -ldl
    LD_PRELOAD=./count.so python lock.py [--pin] > raw.jsonl

--pin    each worker on a core of its own
"""

import ctypes
import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing

STEPS, SLEEPS_S = 60, (0.03, 0.06, 0.005, 0.0)


def threads():
    """Seconds that every thread of this process ran, and waited for a core."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        ran, waited, _ = map(int, (task / "schedstat").read_text().split())
        found[(task / "comm").read_text().strip(), task.name] = (ran / 1e9, waited / 1e9)
    return found


def run(rank, sleep_s, pin):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29614", RANK=str(rank), WORLD_SIZE="2")
    torch.set_num_threads(1)
    if pin:
        os.sched_setaffinity(0, {rank})
    dist.init_process_group("gloo")
    counter = ctypes.CDLL("./count.so")
    counter.count.restype = ctypes.c_ulong
    gradient = torch.randn(4300)
    for _ in range(5):
        dist.all_reduce(gradient)
    before, calls, seconds = threads(), counter.count(), []
    for _ in range(STEPS):
        time.sleep(sleep_s)
        begun = time.perf_counter()
        dist.all_reduce(gradient, async_op=True).wait()
        seconds.append(time.perf_counter() - begun)
    calls, after = counter.count() - calls, threads()
    if rank == 0:
        used = {
            " ".join(name): [round((after[name][i] - before[name][i]) / STEPS * 1e3, 4) for i in (0, 1)]
            for name in before
            if name in after
        }
        row = {
            "sleep_s": sleep_s, "pinned": pin, "exchange_ms": [round(s * 1e3, 3) for s in seconds],
            "epoll_wait_per_exchange": calls / STEPS, "ran_and_waited_ms_per_exchange": used,
        }  # fmt: skip
        print(json.dumps(row), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    for sleep_s in SLEEPS_S:
        torch.multiprocessing.spawn(run, (sleep_s, "--pin" in sys.argv), nprocs=2)
