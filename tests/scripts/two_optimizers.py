"""Two networks, two optimizers, each stepping once per iteration, as in a GAN. Knows nothing of Paceline."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
torch.manual_seed(0)
first = DistributedDataParallel(torch.nn.Linear(32, 32))
second = DistributedDataParallel(torch.nn.Linear(32, 32))
one = torch.optim.Adam(first.parameters())
two = torch.optim.Adam(second.parameters())
data = TensorDataset(torch.randn(4096, 32))
loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data))
for _epoch in range(1000):
    for (inputs,) in loader:
        one.zero_grad()
        first(inputs).square().mean().backward()
        one.step()
        two.zero_grad()
        second(first.module(inputs).detach()).square().mean().backward()
        two.step()
