# Ran on commit dd33fef (2026-11-16)
"""Pinned processes, two cores each, that compute at the same time and exchange nothing: what do they differ by at once?

python vary.py OUT.jsonl [SCALE] [COUNTS]            16 cores; took 130 s with SCALE 1 and COUNTS 2,8

    piece    the probe's products of matrices       mixed    larger ones, and memory
    fixed    three networks, made once              fresh    the same networks, made anew every time

All go on in rounds of eight steps, before each of which all wait for all.
"""

import gc
import json
import multiprocessing as mp
import os
import sys
import time
from pathlib import Path
from statistics import fmean, pstdev

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / name) for name in ("src", "benchmarks")]
MODES = ("piece", "mixed", "fixed", "fresh")
NETWORKS = ("own-ladder", "own-shared", "own-lowrank")
SECONDS, STEPS, WARM = 12, 8, 2
MAXIMUM = {2: 0.5642, 4: 1.0294, 8: 1.4236}  # expected, of so many standard normal values


def work(rank, seconds, barrier, flag, queue):
    last = os.cpu_count() - 1 - rank * 2
    os.sched_setaffinity(0, {last - 1, last})
    import torch

    from lab_worker import real_network
    from paceline_agent import probe_steady

    torch.set_num_threads(1)
    gc.disable()
    run = probe_steady.piece(torch.device("cpu"))
    calls = probe_steady.calls_of(run)
    a, b, c, d = torch.randn(1024, 512), torch.randn(512, 512), torch.empty(1024, 512), torch.zeros(2_000_000)

    def made(name):
        network, x = real_network(name)
        return network, x, torch.optim.SGD(network.parameters(), lr=1e-3)

    def step(network, x, optimizer):
        network(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def mixed():
        for _ in range(32):
            torch.mm(a, b, out=c)
            c.tanh_()
            d.add_(1.0)

    fixed, rows = {name: made(name) for name in NETWORKS}, []
    for mode in MODES:
        end, number = time.time() + seconds, 0
        while again(barrier, end, flag, rank):
            name, number = NETWORKS[number % len(NETWORKS)], number + 1
            if mode == "piece":
                steps = timed(lambda: [run(calls) for _ in range(12)])
            elif mode == "mixed":
                steps = timed(mixed)
            else:
                parts = fixed[name] if mode == "fixed" else made(name)
                steps = timed(lambda parts=parts: step(*parts))
            gc.collect()
            rows.append((mode, name if mode in ("fixed", "fresh") else mode, number, steps))
    queue.put((rank, rows))


def timed(once):
    found = []
    for _ in range(STEPS):
        begun = time.perf_counter()
        once()
        found.append(time.perf_counter() - begun)
    return found[WARM:]


def again(barrier, end, flag, rank):
    """Wait for all; the first says whether there is time left."""
    barrier.wait()
    if rank == 0:
        flag.value = time.time() < end
    barrier.wait()
    return bool(flag.value)


def main():
    scale = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
    counts = [int(count) for count in sys.argv[3].split(",")] if len(sys.argv) > 3 else [2, 8]
    os.environ.update(OMP_NUM_THREADS="1")
    os.environ.update(MALLOC_MMAP_THRESHOLD_="1000000000", MALLOC_TRIM_THRESHOLD_="1000000000")
    spawn = mp.get_context("spawn")
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        for count in counts:
            barrier, flag, queue = spawn.Barrier(count), spawn.Value("i", 1), spawn.Queue()
            each = [
                spawn.Process(target=work, args=(r, SECONDS * scale, barrier, flag, queue))
                for r in range(count)
            ]
            for process in each:
                process.start()
            got = dict(queue.get() for _ in each)
            for process in each:
                process.join()
            for parts in zip(*(got[rank] for rank in sorted(got)), strict=True):
                mode, name, number, _ = parts[0]
                row = {"mode": mode, "workers": count, "network": name, "number": number}
                out.write(json.dumps(row | {"steps_s": [part[3] for part in parts]}) + "\n")
    tell(sys.argv[1])


def tell(file):
    rows = [json.loads(line) for line in Path(file).read_text().splitlines()]
    for workers, mode in dict.fromkeys((row["workers"], row["mode"]) for row in rows):
        cells = [row["steps_s"] for row in rows if (row["workers"], row["mode"]) == (workers, mode)]
        once = fmean(fmean(map(max, zip(*c, strict=True))) / fmean(map(fmean, c)) - 1 for c in cells)
        between = fmean(pstdev([fmean(w) for w in c]) / fmean(map(fmean, c)) for c in cells)
        within = fmean(pstdev(w) / fmean(w) for c in cells for w in c)
        print(
            f"{workers} workers, {mode:5}: {len(cells):2} rounds, at once {once / MAXIMUM[workers]:.1%}, "
            f"between workers {between:.1%}, within a round {within:.1%}"
        )


if __name__ == "__main__":
    tell(sys.argv[1]) if len(sys.argv) == 2 else main()
