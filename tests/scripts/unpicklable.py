"""A training full of things that no pickle takes: locks, lambdas, generators. Knows nothing of Paceline."""

import sys
import threading

import torch
from torch.utils.data import DataLoader, Dataset


class Locked(Dataset):
    def __init__(self):
        self.lock = threading.Lock()
        self.make = lambda index: torch.full((8,), float(index))

    def __len__(self):
        return 512

    def __getitem__(self, index):
        with self.lock:
            return self.make(index)


network = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(network.parameters(), lr=1e-6)
optimizer.param_groups[0]["why"] = lambda: None
loader = DataLoader(Locked(), batch_size=4, num_workers=1, multiprocessing_context="fork")
done = 0
while done < 60:
    for inputs in loader:
        network(inputs).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        done += 1
print("trained", done, file=sys.stderr)
