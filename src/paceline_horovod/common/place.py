"""Which worker this process is, from the environment of whatever launcher started it.

torchrun, `paceline horovod run`, horovodrun, mpirun and srun each say it in variables of their own; the
first family that is complete counts. Without any, the process is alone: rank 0 of 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Place", "as_environment", "place"]

# rank, size, local rank, local size
_FAMILIES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"),
    (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
)


@dataclass(frozen=True)
class Place:
    """One worker among all (rank, size), on its node (local) and among the workers of its local rank (cross)."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1

    @property
    def cross_rank(self) -> int:
        return self.rank // self.local_size

    @property
    def cross_size(self) -> int:
        return -(-self.size // self.local_size)


def place(environment: Mapping[str, str]) -> Place:
    """The place that the environment tells."""
    for rank, size, local_rank, local_size in _FAMILIES:
        if environment.get(rank, "").isdigit() and environment.get(size, "").isdigit():
            workers = int(environment[size])
            return Place(
                rank=int(environment[rank]),
                size=workers,
                local_rank=int(environment.get(local_rank) or environment[rank]),
                local_size=int(environment.get(local_size) or workers),
            )
    return Place()


def as_environment(at: Place) -> dict[str, str]:
    """The variables that scripts written for Horovod or Open MPI read."""
    return {
        "HOROVOD_RANK": str(at.rank),
        "HOROVOD_SIZE": str(at.size),
        "HOROVOD_LOCAL_RANK": str(at.local_rank),
        "HOROVOD_LOCAL_SIZE": str(at.local_size),
        "HOROVOD_CROSS_RANK": str(at.cross_rank),
        "HOROVOD_CROSS_SIZE": str(at.cross_size),
        "OMPI_COMM_WORLD_RANK": str(at.rank),
        "OMPI_COMM_WORLD_SIZE": str(at.size),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(at.local_rank),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(at.local_size),
    }
