"""A script that starts its own workers, on the port it is told."""

import argparse
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def work(rank: int, world: int, port: str) -> None:
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", port
    dist.init_process_group("gloo", rank=rank, world_size=world)
    network = DistributedDataParallel(nn.Linear(8, 4))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(100_000):
        optimizer.zero_grad()
        network(torch.ones(4, 8)).square().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--world-size", type=int)
    parser.add_argument("--port")
    options = parser.parse_args()
    mp.spawn(work, args=(options.world_size, options.port), nprocs=options.world_size)
