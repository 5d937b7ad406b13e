"""Horovod's API over torch.distributed: scripts written for Horovod run on today's PyTorch, without MPI or C++.

    import paceline_horovod.torch as hvd          said by hand
    paceline_horovod.alias.install()              lets `import horovod.torch as hvd` find it

Horovod lets every rank submit its tensors in an order of its own and matches them by name. So does this package:
rank 0 matches the names (common.matching), every rank carries out what was matched in one and the same order
(torch.engine), and torch.distributed moves the bytes (torch.exchange).
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["__version__", "run"]

__version__ = "0.28.1"  # of the API, not of Horovod's code: scripts compare it


def __getattr__(name: str) -> Any:
    """horovod.run, loaded when it is asked for: the agent imports this package into scripts that may not use it."""
    if name == "run":
        return importlib.import_module("paceline_horovod.runner").run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
