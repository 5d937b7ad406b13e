"""horovod.tensorflow: only its Keras part exists here (horovod.tensorflow.keras is paceline_horovod.keras)."""

from __future__ import annotations


def __getattr__(name: str) -> object:
    raise AttributeError(
        f"horovod.tensorflow.{name}: TensorFlow itself is not supported. Keras scripts run on Keras 3 with its torch "
        "backend (import horovod.tensorflow.keras as hvd, KERAS_BACKEND=torch), PyTorch scripts with horovod.torch"
    )
