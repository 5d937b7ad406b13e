"""A training whose gradient is known: the loss is the mean output of a linear network, its gradient the mean input.

Inputs are G + ε with |G|² = 20 and ε of unit variance in 200 dimensions: tr Σ = 200, noise scale 10.
"""

import argparse
import sys

import torch
import torch.distributed as dist
from tensorboardX import SummaryWriter
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

flags = argparse.ArgumentParser()
flags.add_argument("--epochs", type=int, default=4)
flags.add_argument("--seed", type=int, default=0)
flags.add_argument("--lr", type=float, default=1e-3)
flags.add_argument("--batch-size", type=int, default=16)
flags.add_argument("--save", default=None)
given = flags.parse_args()

dist.init_process_group("gloo")
first = dist.get_rank() == 0
torch.manual_seed(given.seed)
size = 200
data = TensorDataset((20.0 / size) ** 0.5 + torch.randn(3200, size))
network = torch.nn.Linear(size, 1, bias=False)
wrapped = DistributedDataParallel(network)
optimizer = torch.optim.SGD(network.parameters(), lr=given.lr, momentum=0.9)
sampler = DistributedSampler(data, drop_last=True)
writer = SummaryWriter()
for epoch in range(given.epochs):
    sampler.set_epoch(epoch)
    for (batch,) in DataLoader(data, batch_size=given.batch_size, sampler=sampler, drop_last=True):
        optimizer.zero_grad()
        wrapped(batch).mean().backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 0.5)
        optimizer.step()
    if first:
        print(f"epoch {epoch}:", end=" ")
        print(f"val_acc={0.5 + epoch / 10:.2f}, lr {given.lr}")
        print("warning: val_acc unknown", file=sys.stderr)
        writer.add_scalar("loss/test", torch.tensor(1.0 / (epoch + 1)), epoch)
if given.save and first:
    torch.save(network.weight.detach(), given.save)
print("the script came to its own end")
dist.destroy_process_group()
