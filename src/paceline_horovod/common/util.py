"""Small answers that scripts take from horovod.common.util."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Sequence
from typing import Any

from paceline_horovod.common.environment import env
from paceline_horovod.torch import built

__all__ = [
    "ccl_built",
    "ddl_built",
    "env",
    "extension_available",
    "gloo_built",
    "gpu_available",
    "is_version_greater_equal_than",
    "mpi_built",
    "nccl_built",
    "num_rank_is_power_2",
    "split_list",
]

_cache = functools.cache  # under the name that Horovod's own helpers have


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Can `horovod.NAME` be used? torch always; keras where Keras is installed; nothing else."""
    return ext_base_name == "torch" or (
        ext_base_name == "keras" and importlib.util.find_spec("keras") is not None
    )


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    return extension_available(ext_base_name) and bool(built.nccl_built())


def mpi_built(verbose: bool = False) -> bool:
    return built.mpi_built()


def gloo_built(verbose: bool = False) -> bool:
    return built.gloo_built()


def nccl_built(verbose: bool = False) -> int:
    return built.nccl_built()


def ddl_built(verbose: bool = False) -> bool:
    return built.ddl_built()


def ccl_built(verbose: bool = False) -> bool:
    return built.ccl_built()


def num_rank_is_power_2(num_rank: int) -> bool:
    """Is it 1, 2, 4, 8 …? Adasum needs it."""
    return num_rank > 0 and not num_rank & (num_rank - 1)


def split_list(values: Sequence[Any], parts: int) -> list[list[Any]]:
    """As many lists of nearly equal length, the longer ones first."""
    base, longer = divmod(len(values), parts)
    ends = [(i + 1) * base + min(i + 1, longer) for i in range(parts)]
    return [list(values[begin:end]) for begin, end in zip([0, *ends], ends, strict=False)]


def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """Is 1.10.2+cpu at least 1.9.0? By the leading numbers of each part."""
    return _numbers(ver) >= _numbers(target)


def _numbers(version: str) -> list[int]:
    parts = version.partition("+")[0].split(".")
    digits = ["".join(c for c in part if c.isdigit()) if part[:1].isdigit() else "" for part in parts]
    return [int(d) for d in digits if d]
