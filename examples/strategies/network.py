"""What the examples of this folder train: a few layers, and batches that every run draws alike."""

import os

import torch
import torch.distributed as dist
from torch import nn

WIDTH, LAYERS = 512, 4


def start() -> str:
    """Join the group; the device to train on."""
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
        return "cuda"
    dist.init_process_group("gloo")
    return "cpu"


def layers() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(LAYERS)))


def batches(device: str, size: int = 64, *, seed: int = 0):
    """Batches without end; workers that give the same seed draw the same."""
    source = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randn(size, WIDTH, generator=source).to(device)


def loss_of(outputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (outputs - target).square().mean()
