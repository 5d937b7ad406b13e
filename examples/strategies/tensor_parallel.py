"""Tensor parallel: workers hold columns of one layer and rows of the next, and work on the same batch.

paceline study --workers 1,2 --scaling strong examples/strategies/tensor_parallel.py
"""

import torch
import torch.distributed as dist
from network import LAYERS, batches, layers, loss_of, start
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

device = start()
mesh = init_device_mesh(device, (dist.get_world_size(),))
plan = {f"{n}.0": RowwiseParallel() if n % 2 else ColwiseParallel() for n in range(LAYERS)}
model = parallelize_module(layers().to(device), mesh, plan)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for inputs in batches(device):
    loss_of(model(inputs), inputs).backward()
    optimizer.step()
    optimizer.zero_grad()
