"""A DDP training that starts its own workers with mp.spawn. Knows nothing of Paceline."""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def work(rank, world, port):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(0)
    ddp = DistributedDataParallel(torch.nn.Linear(64, 64))
    ddp.register_comm_hook(None, fp16_compress_hook)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    data = TensorDataset(torch.randn(4096, 64))
    loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data, world, rank))
    for _epoch in range(1000):
        for (inputs,) in loader:
            ddp(inputs).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(work, args=(int(sys.argv[1]), port), nprocs=int(sys.argv[1]))
