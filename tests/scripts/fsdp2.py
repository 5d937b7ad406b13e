"""fully_shard (FSDP2) on CPU. Knows nothing of Paceline."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64))
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
for layer in network:
    fully_shard(layer, mesh=mesh)
fully_shard(network, mesh=mesh)
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
data = TensorDataset(torch.randn(4096, 64))
loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data))
for _epoch in range(1000):
    for (inputs,) in loader:
        network(inputs).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
