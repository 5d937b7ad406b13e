"""A training whose memory is known: known_memory.py --batch-size B keeps B × 40 MB for backward, and 10 MB of weights.

What is kept is taken and never written to: a limit counts it, and it costs no time.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

MEGA = 1_000_000 // 4  # floats in a megabyte


class Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight, batch):
        kept = torch.empty(batch, 40 * MEGA)
        ctx.save_for_backward(kept)
        ctx.shape = weight.shape
        return weight.sum() * 1e-6

    @staticmethod
    def backward(ctx, grad):
        return torch.full(ctx.shape, 1e-6) * grad, None


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(10, MEGA))

    def forward(self, batch):
        return Kept.apply(self.weight, batch.shape[0])


def main():
    given = argparse.ArgumentParser()
    given.add_argument("--batch-size", type=int, default=1)
    size = given.parse_args().batch_size
    torch.set_num_threads(1)
    network = Network()
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        dist.init_process_group("gloo")
        network = DistributedDataParallel(network, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        network(torch.zeros(size, 1)).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
