"""A small training with Accelerate, as its users write it: uses_accelerate.py [--lr X]. Knows nothing of Paceline."""

import argparse

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

given = argparse.ArgumentParser()
given.add_argument("--lr", type=float, default=0.01)
lr = given.parse_args().lr
accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.SGD(network.parameters(), lr=lr)
loader = DataLoader(TensorDataset(torch.randn(2048, 32)), batch_size=8)
network, optimizer, loader = accelerator.prepare(network, optimizer, loader)
for _ in range(100):
    for (inputs,) in loader:
        with accelerator.accumulate(network):
            accelerator.backward(network(inputs).square().mean())
            optimizer.step()
            optimizer.zero_grad()
