"""An old Horovod script, as it was written: nothing in it knows Paceline."""

import os

import horovod.torch as hvd
import torch

hvd.init()
assert int(os.environ["HOROVOD_RANK"]) == hvd.rank()
torch.manual_seed(0)
net = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01 * hvd.size())
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=net.named_parameters())
hvd.broadcast_parameters(net.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
data = torch.utils.data.TensorDataset(torch.randn(4096, 64))
sampler = torch.utils.data.distributed.DistributedSampler(data, num_replicas=hvd.size(), rank=hvd.rank())
for epoch in range(3):
    sampler.set_epoch(epoch)
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=16, sampler=sampler):
        optimizer.zero_grad()
        net(batch).square().mean().backward()
        optimizer.step()
if hvd.rank() == 0:
    print("weights", float(net.weight.sum()))
