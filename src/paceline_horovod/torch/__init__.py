"""horovod.torch, over torch.distributed.

import paceline_horovod.torch as hvd
hvd.init()
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=network.named_parameters())
hvd.broadcast_parameters(network.state_dict(), root_rank=0)
"""

from paceline_horovod.torch import built, elastic, mpi_ops
from paceline_horovod.torch.built import *  # noqa: F403
from paceline_horovod.torch.compression import Compression
from paceline_horovod.torch.functions import (
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from paceline_horovod.torch.mpi_ops import *  # noqa: F403
from paceline_horovod.torch.optimizer import DistributedOptimizer
from paceline_horovod.torch.sync_batch_norm import SyncBatchNorm

__all__ = [
    "Compression",
    "DistributedOptimizer",
    "SyncBatchNorm",
    "allgather_object",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "elastic",
]
__all__ += built.__all__
__all__ += mpi_ops.__all__
