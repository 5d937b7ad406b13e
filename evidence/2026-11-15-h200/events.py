# Ran on commit 395ec05 (2026-11-15)
"""What the agent adds to a small step without DDP on a CUDA device, and what its events cost.

    python events.py          (one GPU; standard library and torch only)

20 pairs of blocks of 200 steps, with the agent in and taken out, synchronised around each block.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import torch
from torch.utils.data import DataLoader, TensorDataset

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]


def microseconds(entry, count=2000):
    for _ in range(50):
        entry()
    begun = perf_counter()
    for _ in range(count):
        entry()
    return (perf_counter() - begun) / count * 1e6


def main():
    event, stream = torch.cuda.Event(enable_timing=True), torch.cuda.current_stream()
    event.record()
    print(f"record again {microseconds(event.record):.2f} us")
    print(f"current_stream {microseconds(torch.cuda.current_stream):.2f} us")
    print(f"record(stream) {microseconds(lambda: event.record(stream)):.2f} us")
    network = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)]).cuda()
    optimizer, inputs = torch.optim.SGD(network.parameters(), lr=1e-6), torch.randn(64, 256, device="cuda")
    loader = DataLoader(TensorDataset(torch.randn(64 * 8, 8)), batch_size=64)
    order = {
        "dir": tempfile.mkdtemp(), "steps": 10**9, "warmup": 5, "profile": 0, "end": False, "workers": 1,
    }  # fmt: skip
    os.environ["PACELINE_TRIAL"] = json.dumps(order)
    from overhead import Switch

    switch = Switch()
    switch.on()

    def block(steps):
        torch.cuda.synchronize()
        begun, done = perf_counter(), 0
        while done < steps:
            for _ in loader:
                network(inputs).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
                done += 1
                if done == steps:
                    break
        torch.cuda.synchronize()
        return (perf_counter() - begun) / steps

    block(100)
    pairs = []
    for _ in range(20):
        switch.on()
        agent = block(200)
        switch.off()
        pairs.append((agent, block(200)))
    added = sorted((agent - bare) * 1e6 for agent, bare in pairs)
    print(
        f"added: median {(added[9] + added[10]) / 2:.1f} us, 3rd of 20 {added[2]:.1f}, 18th {added[17]:.1f}"
    )
    print(f"bare step: median {sorted(bare for _, bare in pairs)[10] * 1e6:.1f} us")


if __name__ == "__main__":
    main()
