"""A one-process training without torch.distributed. Knows nothing of Paceline."""

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
network = torch.nn.Linear(64, 1)
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(4096, 64), torch.randn(4096, 1)), batch_size=16, shuffle=True)
for _epoch in range(1000):
    for inputs, targets in loader:
        loss = torch.nn.functional.mse_loss(network(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
