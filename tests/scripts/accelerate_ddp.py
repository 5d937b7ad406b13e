"""An Accelerate training. Knows nothing of Paceline."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
data = TensorDataset(torch.randn(4096, 64), torch.randn(4096, 1))
loader = DataLoader(data, batch_size=16, shuffle=True)
network, optimizer, loader = accelerator.prepare(network, optimizer, loader)
for _epoch in range(1000):
    for inputs, targets in loader:
        loss = torch.nn.functional.mse_loss(network(inputs), targets)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
