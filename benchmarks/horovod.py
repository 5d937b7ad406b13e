"""hvd.DistributedOptimizer against DistributedDataParallel: the same network, the same ranks, turn by turn.

    python benchmarks/horovod.py [--workers 2] [--steps 30] [--rounds 6]

Both train in the same processes, in alternating rounds, so whatever else the machine does hits both. A step is the
slowest rank's; the figure is the median over all steps. Real Horovod 0.28.1 reached 0.75× of DDP
(79–84 ms against 60–62 ms) on this network: 5.3 million parameters, 2 gloo workers.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
from time import perf_counter

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import paceline_horovod.torch as hvd


def network(width: int = 1024) -> torch.nn.Module:
    torch.manual_seed(0)
    sizes = [1024, width, width, width, width, width, 10]
    layers: list[torch.nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        layers += [torch.nn.Linear(before, after), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def steps_s(
    net: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: torch.Tensor, steps: int
) -> list[float]:
    """Seconds of each step on this rank."""
    times = []
    for _ in range(steps):
        begun = perf_counter()
        optimizer.zero_grad()
        net(batch).square().mean().backward()
        optimizer.step()
        times.append(perf_counter() - begun)
    return times


def worker(arguments: argparse.Namespace) -> None:
    hvd.init()
    plain, own = DistributedDataParallel(network()), network()
    plain_optimizer = torch.optim.SGD(plain.parameters(), lr=0.01)
    own_optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(own.parameters(), lr=0.01), named_parameters=own.named_parameters()
    )
    batch = torch.randn(arguments.batch, 1024, generator=torch.Generator().manual_seed(hvd.rank()))
    times: dict[str, list[float]] = {"ddp": [], "horovod": []}
    for turn in range(arguments.rounds + 1):
        for name, net, optimizer in (("ddp", plain, plain_optimizer), ("horovod", own, own_optimizer)):
            dist.barrier()
            taken = torch.tensor(steps_s(net, optimizer, batch, arguments.steps))
            if turn:  # the first round warms up
                times[name] += hvd.allreduce(taken, op=hvd.Max).tolist()
            else:
                hvd.allreduce(taken)
    apart = max((p - q).abs().max().item() for p, q in zip(own.parameters(), plain.parameters(), strict=True))
    if hvd.rank() == 0:
        ddp_s, horovod_s = (statistics.median(times[name]) for name in ("ddp", "horovod"))
        figures = {
            "workers": hvd.size(),
            "parameters": sum(p.numel() for p in own.parameters()),
            "ddp_step_s": round(ddp_s, 5),
            "horovod_step_s": round(horovod_s, 5),
            "speed_ratio": round(ddp_s / horovod_s, 3),
            "largest_weight_difference": apart,
        }
        print(json.dumps(figures, indent=2))
    hvd.barrier()
    hvd.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--batch", type=int, default=64)
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        worker(arguments)
        return
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(arguments.workers)]
    subprocess.run(
        [*launcher, __file__, *sys.argv[1:]], check=True, env={"OMP_NUM_THREADS": "1", **os.environ}
    )


if __name__ == "__main__":
    main()
