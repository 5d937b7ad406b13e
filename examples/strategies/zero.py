"""ZeRO stage 1: gradients are all-reduced, each worker updates a part of the weights and broadcasts it.

paceline study --workers 1,2 examples/strategies/zero.py
"""

import torch
import torch.distributed as dist
from network import batches, layers, loss_of, start
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

device = start()
model = DistributedDataParallel(layers().to(device))
optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-3)
for inputs in batches(device, seed=dist.get_rank()):
    loss_of(model(inputs), inputs).backward()
    optimizer.step()
    optimizer.zero_grad()
