"""Data parallel by hand: an all-reduce starts as soon as a gradient is ready, and is waited for before the optimizer.

paceline study --workers 1,2 examples/strategies/by_hand.py
"""

import torch
import torch.distributed as dist
from network import batches, layers, loss_of, start

device = start()
model = layers().to(device)
handles = []
for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(
        lambda p: handles.append(dist.all_reduce(p.grad, async_op=True))
    )
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for inputs in batches(device, seed=dist.get_rank()):
    loss_of(model(inputs), inputs).backward()
    for handle in handles:
        handle.wait()
    handles.clear()
    for parameter in model.parameters():
        parameter.grad /= dist.get_world_size()
    optimizer.step()
    optimizer.zero_grad()
