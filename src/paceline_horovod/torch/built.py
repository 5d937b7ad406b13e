"""What old scripts ask before they start: which parts of Horovod were built. Here: gloo, and torch's NCCL."""

from __future__ import annotations

from typing import Any

import torch
import torch.cuda.nccl
import torch.distributed as dist

__all__ = [
    "ccl_built",
    "check_extension",
    "cuda_built",
    "ddl_built",
    "gloo_built",
    "gloo_enabled",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rocm_built",
]


def mpi_threads_supported() -> bool:
    return False


def mpi_enabled() -> bool:
    return False


def mpi_built() -> bool:
    return False


def gloo_enabled() -> bool:
    return True


def gloo_built() -> bool:
    return True


def nccl_built() -> int:
    """NCCL's version as one number, as Horovod gives it; 0 without it."""
    if not (torch.cuda.is_available() and dist.is_nccl_available()):
        return 0
    version: Any = torch.cuda.nccl.version
    major, minor, patch = version()
    return int(major * 10000 + minor * 100 + patch)


def ddl_built() -> bool:
    return False


def ccl_built() -> bool:
    return False


def cuda_built() -> bool:
    return torch.version.cuda is not None


def rocm_built() -> bool:
    return torch.version.hip is not None


def check_extension(*names: Any, **options: Any) -> None:
    """Horovod refuses to start when its compiled part is missing. There is none here."""
