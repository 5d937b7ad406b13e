"""Averages gradients by hand with dist.all_reduce after backward. Knows nothing of Paceline."""

import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
late = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
torch.manual_seed(0)
network = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
torch.manual_seed(rank)
while True:
    network(torch.randn(16, 64)).square().mean().backward()
    if rank == 1:
        time.sleep(late)
    for parameter in network.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= world
    optimizer.step()
    optimizer.zero_grad()
