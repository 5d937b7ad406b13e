"""horovod.tensorflow: only its Keras part exists here (horovod.tensorflow.keras is paceline_horovod.keras)."""

from __future__ import annotations


def __getattr__(name: str) -> object:
    raise AttributeError(
        f"horovod.tensorflow.{name}: TensorFlow itself is not supported; "
        "import horovod.tensorflow.keras with Keras 3 on torch, or horovod.torch"
    )
