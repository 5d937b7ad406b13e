"""Callbacks for model.fit on several ranks.

warm-up     lr(epoch) = initial_lr / size × (1 + epoch (size − 1) / warmup_epochs)     from one worker's rate to all
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import torch

from paceline_horovod.keras.functions import broadcast_variables
from paceline_horovod.torch import mpi_ops, world

__all__ = [
    "BestModelCheckpoint",
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]


class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):
    """All ranks start from the root's weights and optimizer state: what they loaded or drew themselves is replaced."""

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self.root_rank = root_rank
        self._done = False

    def on_train_begin(self, logs: Any = None) -> None:
        self._done = False
        if self.model.built:
            broadcast_variables(self.model.variables, self.root_rank)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Once more after the first batch: now every variable exists, also the optimizer's."""
        if not self._done:
            broadcast_variables(self.model.variables, self.root_rank)
            if self.model.optimizer is not None:
                broadcast_variables(self.model.optimizer.variables, self.root_rank)
            self._done = True


class MetricAverageCallback(keras.callbacks.Callback):
    """Metrics at the end of an epoch are those of all ranks. Put it before callbacks that read metrics."""

    def __init__(self, device: str = "") -> None:
        super().__init__()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if not logs or world.size() == 1:
            return
        names = sorted(name for name, value in logs.items() if isinstance(value, int | float))
        averages = mpi_ops.allreduce(torch.tensor([float(logs[name]) for name in names], dtype=torch.float64))
        logs.update(zip(names, averages.tolist(), strict=True))


class LearningRateScheduleCallback(keras.callbacks.Callback):
    """The learning rate is initial_lr × multiplier from start_epoch until end_epoch.

    `multiplier` is a number or a function of the epoch. With staircase=False the function gets fractions of epochs,
    for which steps_per_epoch is needed if Keras does not know it. `momentum_correction` is accepted for old scripts:
    Keras 3 keeps the learning rate outside the momentum, so there is nothing to correct."""

    def __init__(
        self,
        initial_lr: float,
        multiplier: float | Callable[[float], float],
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__()
        self.initial_lr = initial_lr
        self.start_epoch, self.end_epoch = start_epoch, end_epoch
        self.staircase = staircase if callable(multiplier) else True
        self.multiplier = multiplier if callable(multiplier) else lambda epoch: multiplier
        self.steps_per_epoch = steps_per_epoch
        self._epoch = 0

    def on_train_begin(self, logs: Any = None) -> None:
        if not self.staircase and self.steps_per_epoch is None:
            self.steps_per_epoch = self.params.get("steps")
            if self.steps_per_epoch is None:
                raise ValueError("the steps of an epoch are not known: give steps_per_epoch to this callback")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self._epoch < self.start_epoch or (self.end_epoch is not None and self._epoch >= self.end_epoch):
            return
        if self.staircase:
            if batch == 0:
                self._set(float(self._epoch))
        else:
            assert self.steps_per_epoch is not None
            self._set(self._epoch + batch / self.steps_per_epoch)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if logs is not None:
            logs["lr"] = float(self.model.optimizer.learning_rate.value)

    def _set(self, epoch: float) -> None:
        self.model.optimizer.learning_rate = self.initial_lr * self.multiplier(epoch)


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """From the learning rate of one worker to `initial_lr` (already × size) over the first epochs."""

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        def multiplier(epoch: float) -> float:
            assert self.steps_per_epoch is not None
            reached = epoch + 1.0 / self.steps_per_epoch  # the last batch of the warm-up has the whole rate
            return 1.0 / world.size() * (reached * (world.size() - 1) / warmup_epochs + 1)

        super().__init__(
            initial_lr,
            multiplier,
            start_epoch=0,
            end_epoch=warmup_epochs,
            staircase=False,
            momentum_correction=momentum_correction,
            steps_per_epoch=steps_per_epoch,
        )
        self.verbose = verbose
        self.warmup_epochs = warmup_epochs

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        super().on_epoch_end(epoch, logs)
        if epoch == self.warmup_epochs - 1 and self.verbose and world.rank() == 0:
            print(f"Epoch {epoch + 1}: the warm-up ends at learning rate {self.initial_lr:g}")


class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):
    """The best model so far, saved by rank 0 alone."""

    def __init__(
        self,
        filepath: str = "best_model.keras",
        monitor: str = "val_loss",
        verbose: int = 0,
        mode: str = "auto",
        save_freq: str | int = "epoch",
        **options: Any,
    ) -> None:
        super().__init__(
            filepath,
            monitor=monitor,
            verbose=verbose,
            mode=mode,
            save_freq=save_freq,
            save_best_only=True,
            **options,
        )

    def _save_model(self, *args: Any, **kwargs: Any) -> None:
        if world.rank() == 0:
            super()._save_model(*args, **kwargs)
