"""Horovod's API over torch.distributed: scripts written for Horovod run on today's PyTorch, without MPI or C++.

    import paceline_horovod.torch as hvd          said by hand
    paceline_horovod.alias.install()              lets `import horovod.torch as hvd` find it

Horovod lets every rank submit its tensors in an order of its own and matches them by name. So does this package:
rank 0 matches the names (common.matching), every rank carries out what was matched in one and the same order
(torch.engine), and torch.distributed moves the bytes (torch.exchange).
"""

__all__ = ["__version__"]

__version__ = "0.28.1"  # of the API, not of Horovod's code: scripts compare it
