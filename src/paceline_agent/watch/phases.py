"""Where a step is when it communicates: in a backward, in an optimizer's step, in a module's forward, or elsewhere."""

from __future__ import annotations

import functools
import inspect
import sys
from types import FrameType
from typing import Any, Callable, Optional

FORWARD, BACKWARD, OPTIMIZER, OTHER = "forward", "backward", "optimizer", "other"


class Phases:
    """What is known of the main thread without hooking any module: a forward is found on the stack when asked for."""

    def __init__(self) -> None:
        self.backward_depth = 0
        self.in_optimizer = False
        self._codes: dict[Any, str] = {}  # code that is on the stack in a phase
        self._optimizer: Any = None  # the code that torch wraps every Optimizer.step in

    def now(self) -> str:
        if self.backward_depth:
            return BACKWARD
        codes = self._codes
        frame: Optional[FrameType] = sys._getframe(1)
        while frame is not None:
            if frame.f_code in codes:
                return codes[frame.f_code]
            frame = frame.f_back
        return OPTIMIZER if self.in_optimizer else OTHER

    def is_nested_optimizer(self) -> bool:
        """Whether another optimizer steps the one whose hook asks, and will end the step (ZeroRedundancyOptimizer)."""
        return _times_on_stack(self._optimizer) > 1

    def learn(self, torch: Any) -> None:
        """Find the code to look for; that of an optimizer's step by wrapping a function that does nothing."""
        self._codes[torch.nn.Module._call_impl.__code__] = FORWARD
        wrapped = torch.optim.Optimizer.profile_hook_step(lambda optimizer: None)
        self._optimizer = getattr(wrapped, "__code__", None)

    def learn_engines(self) -> None:
        """DeepSpeed reduces gradients after autograd's backward and sends weights after torch's optimizer: its own
        backward and step say when."""
        engine = getattr(sys.modules.get("deepspeed.runtime.engine"), "DeepSpeedEngine", None)
        for name, phase in (("backward", BACKWARD), ("step", OPTIMIZER)):
            method = inspect.unwrap(getattr(engine, name, None) or _nothing)
            self._codes[method.__code__] = phase


def _nothing() -> None:
    """Stands for what is not there: on no stack."""


def watch_backward(torch: Any, phases: Phases, ended: Callable[[Any], None]) -> None:
    """Know when backward ended and which loss it began from. Nested calls (checkpointing) count once."""
    original = torch.autograd.backward

    @functools.wraps(original)
    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return original(tensors, *args, **kwargs)
        phases.backward_depth += 1
        try:
            result = original(tensors, *args, **kwargs)
        finally:
            phases.backward_depth -= 1
        if phases.backward_depth == 0:
            ended(tensors)
        return result

    torch.autograd.backward = backward


def _times_on_stack(code: Any) -> int:
    frame: Optional[FrameType] = sys._getframe(1)
    times = 0
    while frame is not None:
        times += frame.f_code is code
        frame = frame.f_back
    return times
