"""A small convolutional network on handwritten digits: an ordinary data-parallel training script.

    python -m paceline_workloads.mnist                                      one process
    torchrun --nproc-per-node 2 -m paceline_workloads.mnist --epochs 3      two workers

Without data it draws its own digits: the strokes of the ten figures, shifted, scaled and with noise, the same
for the same seed. They can be learned, and they are not MNIST. `--data FOLDER` (or PACELINE_DATA) reads the four
published idx files instead, plain or gzipped.
"""

from __future__ import annotations

import argparse
import gzip
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody uses
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

# the seven segments of a figure as (row, column, height, width) on a 20 x 12 grid, and who lights which
SEGMENTS = (
    (0, 1, 2, 10),
    (1, 0, 9, 2),
    (1, 10, 9, 2),
    (9, 1, 2, 10),
    (10, 0, 9, 2),
    (10, 10, 9, 2),
    (18, 1, 2, 10),
)
FIGURES = ("012456", "25", "02346", "02356", "1235", "01356", "013456", "025", "0123456", "012356")


class Network(nn.Module):
    """Two convolutions and two linear layers, 421,642 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.classes = nn.Sequential(nn.Flatten(), nn.Linear(64 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, images: Tensor) -> Tensor:
        """Scores of the ten digits."""
        scores: Tensor = self.classes(self.features(images))
        return scores


def main() -> None:
    """Train for some epochs; worker 0 prints the loss and the accuracy on digits it has not seen."""
    options = arguments()
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    rank, world, device = join()
    train, test = datasets(options, rank)
    plain = Network().to(device)
    network = DistributedDataParallel(plain) if world > 1 else plain
    sampler: DistributedSampler[tuple[Tensor, ...]] = DistributedSampler(
        train, num_replicas=world, rank=rank, seed=options.seed
    )
    loader = DataLoader(train, batch_size=options.batch_size, sampler=sampler, drop_last=True)
    optimizer = torch.optim.SGD(network.parameters(), lr=options.lr, momentum=0.9)
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        network.train()
        for images, labels in loader:
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(network(images.to(device)), labels.to(device))
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        if rank == 0:
            score = accuracy(plain, test, device)
            print(f"epoch {epoch + 1}: loss {loss.item():.3f}, accuracy {score:.3f}", flush=True)
    if world > 1:
        dist.destroy_process_group()


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Train a small network on handwritten digits.")
    parser.add_argument("--batch-size", type=int, default=64, help="images per worker and step")
    parser.add_argument("--lr", type=float, default=0.05, help="learning rate")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", default=os.environ.get("PACELINE_DATA"), help="folder with the idx files")
    parser.add_argument("--threads", type=int, help="CPU threads of each worker")
    return parser.parse_args()


def join() -> tuple[int, int, torch.device]:
    """This worker's number, how many there are, and its device. Alone when no launcher has started us."""
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    if world > 1:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return rank, world, device


def datasets(options: argparse.Namespace, rank: int) -> tuple[TensorDataset, TensorDataset]:
    """Digits to learn from and digits to be judged by."""
    if options.data:
        folder = Path(options.data)
        return idx_digits(folder, "train"), idx_digits(folder, "t10k")
    if rank == 0:
        print("no --data: training on generated digits, not on MNIST", flush=True)
    return drawn_digits(12_000, seed=options.seed + 1), drawn_digits(2_000, seed=options.seed + 2)


def drawn_digits(count: int, *, seed: int) -> TensorDataset:
    """Seven-segment figures of varying place, size, brightness and noise; the same for the same seed."""
    chance = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (count,), generator=chance)
    figures = torch.zeros(10, 1, 20, 12)
    for digit, segments in enumerate(FIGURES):
        for row, column, height, width in (SEGMENTS[int(segment)] for segment in segments):
            figures[digit, 0, row : row + height, column : column + width] = 1.0
    # an affine map per image: scale 0.8 to 1.25, slant, shift; grid_sample draws all images at once
    scale = 1.1 + 0.5 * torch.rand(count, 2, generator=chance)
    slant = 0.3 * (torch.rand(count, generator=chance) - 0.5)
    shift = 0.5 * (torch.rand(count, 2, generator=chance) - 0.5)
    maps = torch.zeros(count, 2, 3)
    maps[:, 0, 0], maps[:, 0, 1], maps[:, 0, 2] = 1.5 * scale[:, 0], slant, shift[:, 0]
    maps[:, 1, 1], maps[:, 1, 2] = scale[:, 1], shift[:, 1]
    grid = F.affine_grid(maps, [count, 1, 28, 28], align_corners=False)
    images = F.grid_sample(figures[labels], grid, align_corners=False)
    images = images * (0.6 + 0.4 * torch.rand(count, 1, 1, 1, generator=chance))
    images += 0.4 * torch.randn(images.shape, generator=chance)
    return TensorDataset((images - 0.2) / 0.5, labels)


def idx_digits(folder: Path, part: str) -> TensorDataset:
    """The published files: idx, big-endian header of one magic number and the dimensions, then bytes."""
    images = idx_bytes(folder, f"{part}-images-idx3-ubyte").float().div(255)
    labels = idx_bytes(folder, f"{part}-labels-idx1-ubyte").long()
    return TensorDataset(images.unsqueeze(1).sub(0.1307).div(0.3081), labels)


def idx_bytes(folder: Path, name: str) -> Tensor:
    """One idx file as a tensor, plain or gzipped."""
    for path in (folder / name, folder / name.replace("-idx", ".idx"), folder / f"{name}.gz"):
        if path.exists():
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            sizes = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(data[3])]
            return torch.frombuffer(bytearray(data[4 + 4 * len(sizes) :]), dtype=torch.uint8).view(*sizes)
    raise SystemExit(
        f"{folder / name} is not there, plain or as .gz; --data names the folder of the idx files"
    )


@torch.no_grad()
def accuracy(network: nn.Module, digits: TensorDataset, device: torch.device) -> float:
    """The share of digits recognised."""
    network.eval()
    right = total = 0
    for images, labels in DataLoader(digits, batch_size=1000):
        right += int((network(images.to(device)).argmax(1) == labels.to(device)).sum())
        total += len(labels)
    return right / total


if __name__ == "__main__":
    main()
