"""What is trained: the data, the network, the loss, and what is measured on data that it has not seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody uses

from paceline_workloads.data.examples import Data

__all__ = ["Task", "class_sums", "classification_metrics"]

View = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True)
class Task:
    """One workload, as the trainer sees it."""

    name: str
    data: Data
    network: Callable[[], nn.Module]
    learning: View  # raw inputs, targets and draws -> what the network sees and what the loss compares with
    judging: View  # the same when it is judged
    loss: Callable[[Tensor, Tensor], Tensor]  # outputs and targets -> the mean over the batch
    sums: Callable[[Tensor, Tensor], Tensor]  # the same -> sums over the batch, from which metrics follow
    metrics: Callable[[Tensor], dict[str, float]]  # sums over all samples -> named metrics
    goal: str = "val_accuracy"  # the metric that --target is about
    rises: bool = True  # whether more of it is better
    draws: int = 0
    held_out_metrics: Callable[[Tensor], dict[str, float]] | None = None  # the same of data.held_out
    judged_together: int = 250  # samples per forward when judging; the same at every worker count
    classes: int | None = None

    def reached(self, value: float, target: float) -> bool:
        """Whether the goal is as good as the target."""
        return value >= target if self.rises else value <= target


def class_sums(outputs: Tensor, targets: Tensor) -> Tensor:
    """Samples, right answers, loss."""
    loss = F.cross_entropy(outputs.float(), targets, reduction="none").double().sum()
    right = (outputs.argmax(1) == targets).double().sum()
    return torch.stack([loss.new_tensor(float(len(targets))), right, loss])


def classification_metrics(sums: Tensor) -> dict[str, float]:
    """Accuracy and loss on data not learned from."""
    count, right, loss = sums.tolist()
    return {"val_accuracy": right / count, "val_loss": loss / count}
