"""horovod.keras and horovod.tensorflow.keras, for Keras 3 on its torch backend.

import paceline_horovod.keras as hvd
hvd.init()
model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.Adam(1e-3 * hvd.size())), …)
model.fit(…, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
"""

try:
    import keras
except ModuleNotFoundError as problem:
    raise ImportError(
        f"Keras cannot be imported ({problem}): install keras and set KERAS_BACKEND=torch"
    ) from problem

if keras.backend.backend() != "torch":
    raise ImportError(
        f"Keras runs on its {keras.backend.backend()} backend, and Horovod's API is provided on torch only: "
        "set KERAS_BACKEND=torch before keras is imported"
    )

from paceline_horovod.keras import callbacks
from paceline_horovod.keras.functions import allgather, allreduce, broadcast
from paceline_horovod.keras.optimizer import DistributedOptimizer, hint_old_arguments, load_model
from paceline_horovod.torch import (
    Adasum,
    Average,
    Compression,
    ProcessSet,
    Sum,
    add_process_set,
    broadcast_object,
    cross_rank,
    cross_size,
    global_process_set,
    gloo_built,
    gloo_enabled,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rank,
    remove_process_set,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
)

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "ProcessSet",
    "Sum",
    "add_process_set",
    "allgather",
    "allreduce",
    "broadcast",
    "broadcast_object",
    "callbacks",
    "cross_rank",
    "cross_size",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "load_model",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "remove_process_set",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]

hint_old_arguments()
