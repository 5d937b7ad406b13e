"""A Lightning training with strategy="ddp". Knows nothing of Paceline."""

import logging
import os
import sys

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))

    def training_step(self, batch, index):
        inputs, targets = batch
        return torch.nn.functional.mse_loss(self.network(inputs), targets)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


if __name__ == "__main__":
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    lightning.seed_everything(0, verbose=False)
    data = TensorDataset(torch.randn(4096, 64), torch.randn(4096, 1))
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=int(os.environ.get("WORLD_SIZE", "1")),
        strategy="ddp",
        max_epochs=int(sys.argv[1]) if len(sys.argv) > 1 else 1000,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Regression(), DataLoader(data, batch_size=16, num_workers=0))
