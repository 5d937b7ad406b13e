"""The classic Horovod pattern: pin, scale the learning rate, wrap the optimizer, broadcast, save on rank 0.

paceline horovod run -np 2 python examples/horovod/classic.py --epochs 2
paceline study --workers 1,2 examples/horovod/classic.py
"""

import argparse
import tempfile
from pathlib import Path

import horovod.torch as hvd
import torch
import torch.nn.functional as F  # noqa: N812
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--checkpoint", default=str(Path(tempfile.gettempdir()) / "classic.pt"))
args = parser.parse_args()

hvd.init()
if torch.cuda.is_available():
    torch.cuda.set_device(hvd.local_rank())
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(42)

# two noisy rings: learnable in seconds, without a download
angles = torch.rand(2000) * 6.2832
labels = (torch.arange(2000) % 2).long()
points = torch.stack([angles.cos(), angles.sin()], 1) * (1.0 + labels[:, None]) + 0.1 * torch.randn(2000, 2)
dataset = TensorDataset(points, labels)
sampler = DistributedSampler(dataset, num_replicas=hvd.size(), rank=hvd.rank())
loader = DataLoader(dataset, batch_size=args.batch_size, sampler=sampler)

model = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)

for epoch in range(args.epochs):
    sampler.set_epoch(epoch)
    for data, target in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data.to(device)), target.to(device))
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        right = (model(points.to(device)).argmax(1) == labels.to(device)).float().mean()
    accuracy = hvd.allreduce(right, name="accuracy").item()
    if hvd.rank() == 0:
        print(f"epoch {epoch}: accuracy {accuracy:.3f} on {hvd.size()} workers")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, args.checkpoint)
