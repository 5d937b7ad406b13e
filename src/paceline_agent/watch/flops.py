"""Floating-point operations of one step: torch's own formulas, over every operator that the step calls.

Counted in one step of the warm-up, which is not timed: an observer sees each call and passes it on, so nothing is
computed otherwise. What a wrapper around tensors (DTensor) calls inside is counted: each worker's own share.
Recomputation counts as often as it is computed. Where code was compiled nothing is counted: compiled operators have no
formula, and an observer would make new code run uncompiled.
"""

from __future__ import annotations

import sys
from typing import Any, Optional

STEP = 3  # after the first, which makes what it needs, and the second, in which modules are listened to

COMPILED = "compiled code"
OBSERVED = "another observer of operators"


class Flops:
    """Opens for one step."""

    def __init__(self, *, wanted: bool, warmup: int) -> None:
        self.counted: Optional[dict[str, int]] = None  # by the type of number that is multiplied
        self.unknown: Optional[str] = None if wanted else "not wanted"
        self._due = wanted and warmup >= STEP
        if wanted and not self._due:
            self.unknown = "too few steps of warm-up"
        self._found: dict[str, int] = {}
        self._observer: Any = None

    def step_ended(self, k: int) -> None:
        """Open and close when it is time. A torch without what this needs is measured without it."""
        try:
            if self._due and k == STEP - 1:
                self._open()
            elif self._due and k == STEP:
                self._close()
        except Exception as error:
            self._due, self.unknown = False, f"{type(error).__name__}: {error}"

    def _open(self) -> None:
        from torch._C import _len_torch_dispatch_stack

        if has_compiled():
            self.unknown = COMPILED
        elif _len_torch_dispatch_stack():
            self.unknown = OBSERVED
        else:
            self._observer = _observer(self._found)
            self._observer.__enter__()
        self._due = self._observer is not None

    def _close(self) -> None:
        from torch.utils._python_dispatch import _get_current_dispatch_mode

        self._due = False
        observer = self._observer
        on_top: Any = _get_current_dispatch_mode()
        if on_top is not observer:
            observer.counts = (
                False  # the script has put one of its own on top: this one stays, and does nothing
            )
            self.unknown = OBSERVED
            return
        observer.__exit__(None, None, None)
        if has_compiled():
            self.unknown = COMPILED
        elif observer.failed is not None:
            self.unknown = observer.failed
        else:
            self.counted = self._found


def has_compiled() -> bool:
    return bool(getattr(sys.modules.get("torch._dynamo.convert_frame"), "FRAME_COUNTER", 0))


def _observer(found: dict[str, int]) -> Any:
    """What torch calls for every operator between its entering and its leaving."""
    import torch
    from torch.utils import flop_counter
    from torch.utils._python_dispatch import TorchDispatchMode

    formulas: dict[Any, Any] = dict(flop_counter.flop_registry)
    for name, formula in (
        ("", "sdpa_flop"),
        ("_backward", "sdpa_backward_flop"),
    ):  # torch has none of CPU's attention
        operator = getattr(torch.ops.aten, f"_scaled_dot_product_flash_attention_for_cpu{name}", None)
        if operator is not None and hasattr(flop_counter, formula):
            formulas.setdefault(operator, getattr(flop_counter, formula))
    plain = (torch.Tensor, torch.nn.Parameter)

    class Observer(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch says no types here
        counts = True
        failed = None

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if any(kind not in plain for kind in types):
                return NotImplemented  # what wraps a tensor calls operators of its own, which are seen here
            kwargs = kwargs or {}
            out = func(*args, **kwargs)
            formula = formulas.get(getattr(func, "_overloadpacket", None))
            if formula is not None and self.counts:
                self._count(formula, out, args, kwargs)
            return out

        def _count(self, formula: Any, out: Any, args: Any, kwargs: Any) -> None:
            """The training goes on whatever a formula makes of what it is given."""
            try:
                name = _number_type(torch, args)
                found[name] = found.get(name, 0) + int(formula(*args, **kwargs, out_val=out))
            except Exception as error:
                self.counts, self.failed = False, f"{type(error).__name__}: {error}"

    return Observer()  # type: ignore[no-untyped-call]


def _number_type(torch: Any, args: Any) -> str:
    """The type of the numbers that are multiplied; float32 that a device may round to less has a name of its own."""
    last = [value for value in args if isinstance(value, torch.Tensor)][-1]
    name = str(last.dtype).rpartition(".")[2]
    rounded = last.is_cuda and name == "float32" and torch.backends.cuda.matmul.allow_tf32
    return "tfloat32" if rounded else name
