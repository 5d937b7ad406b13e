"""Gradient accumulation, clipping and compression with Horovod.

paceline horovod run -np 2 python examples/horovod/accumulate_and_clip.py
"""

import horovod.torch as hvd
import torch

hvd.init()
torch.manual_seed(hvd.rank())
model = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
passes = 2
optimizer = hvd.DistributedOptimizer(
    torch.optim.Adam(model.parameters(), lr=1e-2),
    named_parameters=model.named_parameters(),
    compression=hvd.Compression.fp16,
    backward_passes_per_step=passes,
)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)

for step in range(50):
    optimizer.zero_grad()
    for _ in range(passes):
        x = torch.randn(16, 10)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean() / passes
        loss.backward()
    optimizer.synchronize()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    with optimizer.skip_synchronize():
        optimizer.step()
    mean = hvd.allreduce(loss.detach(), name="loss").item()
    if hvd.rank() == 0 and step % 10 == 9:
        print(f"step {step + 1}: loss {mean:.4f}")
