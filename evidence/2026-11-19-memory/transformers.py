# Ran on commit a558025 (2026-11-19)
"""Two transformers that know nothing of Paceline: transformers.py decoder|encoder --strategy ddp|zero1|fsdp --batch-size B."""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

SIZES = {"decoder": (256, 6, 128, 1000), "encoder": (384, 4, 64, 500)}  # width, layers, tokens, vocabulary


class Network(nn.Module):
    def __init__(self, kind):
        super().__init__()
        width, layers, self.tokens, self.words = SIZES[kind]
        self.causal = kind == "decoder"
        self.embed = nn.Embedding(self.words, width)
        block = dict(d_model=width, nhead=8, dim_feedforward=4 * width, batch_first=True, norm_first=True)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(**block) for _ in range(layers))
        self.head = nn.Linear(width, self.words)

    def forward(self, ids):
        x = self.embed(ids)
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1]) if self.causal else None
        for block in self.blocks:
            x = block(x, src_mask=mask, is_causal=self.causal)
        return self.head(x)


def main():
    given = argparse.ArgumentParser()
    given.add_argument("kind", choices=SIZES)
    given.add_argument("--strategy", default="ddp")
    given.add_argument("--batch-size", type=int, default=8)
    asked = given.parse_args()
    workers = int(os.environ.get("WORLD_SIZE", "1"))
    torch.manual_seed(0)
    network = model = Network(asked.kind)
    if workers > 1:
        dist.init_process_group("gloo")
        if asked.strategy == "fsdp":
            mesh = init_device_mesh("cpu", (workers,))
            for block in network.blocks:
                fully_shard(block, mesh=mesh)
            fully_shard(network, mesh=mesh)
        else:
            model = DistributedDataParallel(network)
    if asked.strategy == "zero1" and workers > 1:
        from torch.distributed.optim import ZeroRedundancyOptimizer

        optimizer = ZeroRedundancyOptimizer(network.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-3)
    else:
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    for _ in range(100):
        ids = torch.randint(network.words, (asked.batch_size, network.tokens))
        optimizer.zero_grad()
        cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
