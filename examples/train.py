"""An ordinary training script with DistributedDataParallel, to try Paceline on. It knows nothing of Paceline.

torchrun --nproc-per-node 2 examples/train.py --epochs 2
paceline study --workers 1,2 examples/train.py -- --batch-size 32
"""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

WIDTHS = {"small": 32, "large": 96}


def network(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
        nn.Flatten(), nn.Linear(width * 16, 10),
    )  # fmt: skip


def pictures(count: int, seed: int) -> TensorDataset:
    """Noise with a bright stripe; the class is the stripe's row."""
    source = torch.Generator().manual_seed(seed)
    classes = torch.randint(0, 10, (count,), generator=source)
    images = torch.randn(count, 1, 28, 28, generator=source)
    images[torch.arange(count), 0, 2 * classes + 4] += 1.0
    return TensorDataset(images, classes)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32, help="per worker")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--model", choices=WIDTHS, default="small")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()

    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else "cpu"
    torch.manual_seed(asked.seed)
    net = DistributedDataParallel(network(WIDTHS[asked.model]).to(device))
    optimizer = torch.optim.SGD(net.parameters(), lr=asked.lr, momentum=0.9)
    training, held_out = pictures(8192, seed=1), pictures(1024, seed=2)
    sampler = DistributedSampler(training, seed=asked.seed)
    batches = DataLoader(training, batch_size=asked.batch_size, sampler=sampler, drop_last=True)
    for epoch in range(asked.epochs):
        sampler.set_epoch(epoch)
        for images, classes in batches:
            optimizer.zero_grad()
            F.cross_entropy(net(images.to(device)), classes.to(device)).backward()
            optimizer.step()
        if dist.get_rank() == 0:
            with torch.no_grad():
                images, classes = held_out.tensors
                right = net.module(images.to(device)).argmax(1) == classes.to(device)
            print(f"epoch {epoch}: val_acc={right.float().mean().item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
