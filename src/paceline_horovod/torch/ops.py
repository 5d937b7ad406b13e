"""The reductions, under the names and numbers that Horovod gives them."""

from __future__ import annotations

import enum
import warnings

__all__ = ["Adasum", "Average", "Max", "Min", "Op", "Product", "Sum", "chosen_op"]


class Op(enum.IntEnum):
    """How the tensors of all ranks become one."""

    Average = 0
    Sum = 1
    Adasum = 2
    Min = 3
    Max = 4
    Product = 5


Average, Sum, Adasum, Min, Max, Product = Op.Average, Op.Sum, Op.Adasum, Op.Min, Op.Max, Op.Product


def chosen_op(op: Op | int | None, average: bool | None) -> Op:
    """The reduction meant by `op` or by its older form, `average`. Without either: the average."""
    if op is not None and average is not None:
        raise ValueError(f"average={average} and op={op} were both given; give op alone")
    if average is not None:
        warnings.warn(
            "`average` has been replaced by `op` (hvd.Average, hvd.Sum)", DeprecationWarning, stacklevel=3
        )
        return Average if average else Sum
    return Average if op is None else Op(op)
