"""FSDP2: every worker holds a part of every layer, and gathers the whole of it when it is its turn.

paceline study --workers 1,2 examples/strategies/fsdp2.py
"""

import torch
import torch.distributed as dist
from network import batches, layers, loss_of, start
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

device = start()
mesh = init_device_mesh(device, (dist.get_world_size(),))
model = layers().to(device)
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for inputs in batches(device, seed=dist.get_rank()):
    loss_of(model(inputs), inputs).backward()
    optimizer.step()
    optimizer.zero_grad()
