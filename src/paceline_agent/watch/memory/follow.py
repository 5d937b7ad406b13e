"""What one worker's memory holds: two steps of the warm-up, not timed, in which every tensor is followed.

    step 4    whatever an operator gives is noted by its storage: buffers that nobody can name come up here
    step 5    after each operator: the bytes of all storages that live; the most of forward, backward and optimizer

Parameters, buffers, gradients and optimizer state are walked (of what is spread over workers, what is here). All else
that lives when backward begins are activations: what backward needs, the batch, the loss. Hooks on saved tensors would
not see what is computed again in backward, and torch.func refuses to work under them. What no tensor holds (workspaces
of kernels, the allocator's rounding, the interpreter) is the difference to what the process or the device holds.
"""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any, Optional

from paceline_agent.record import host
from paceline_agent.watch.flops import COMPILED, OBSERVED, has_compiled
from paceline_agent.watch.memory.layout import parts, shapes
from paceline_agent.watch.network import living_modules
from paceline_agent.watch.phases import BACKWARD, FORWARD, OPTIMIZER
from paceline_agent.watch.timeline import bucket_parameters

if TYPE_CHECKING:
    from paceline_agent.agent import Agent

FORMAT = 1
FIRST, LAST = 4, 5  # the step after the one in which operations are counted, and the one after that
_WORTH = 1.01  # a peak that is higher by less is not looked into again


class Memory:
    """Opens for two steps."""

    def __init__(self, agent: Agent, *, warmup: int) -> None:
        self._agent = agent
        self._due = warmup >= LAST
        self.unknown: Optional[str] = None if self._due else "too few steps of warm-up"
        self.started_bytes = host.private_bytes()
        self._held: dict[str, Any] = {}
        self._observer: Any = None

    def step_ended(self, k: int) -> None:
        """Open, begin anew and close when it is time. A torch without what this needs is measured without it."""
        try:
            if not self._due:
                return
            if k == FIRST - 1:
                self._open()
            elif k == LAST - 1 and self._observer is not None:
                self._observer.begin()
            elif k == LAST:
                self._close()
        except Exception as error:
            self._leave()
            self._due, self.unknown = False, f"{type(error).__name__}: {error}"

    def record(self) -> dict[str, Any]:
        """The line of the worker's file."""
        return {"record": "memory", "format": FORMAT, "unknown": self.unknown, **self._held}

    def _open(self) -> None:
        from torch._C import _len_torch_dispatch_stack

        if has_compiled():
            self.unknown = COMPILED
        elif _len_torch_dispatch_stack():
            self.unknown = OBSERVED
        else:
            self._observer = _observer(self._agent, self.started_bytes)
            self._observer.enter()
        self._due = self._observer is not None

    def _close(self) -> None:
        from torch.utils._python_dispatch import _get_current_dispatch_mode

        observer, self._due = self._observer, False
        on_top: Any = _get_current_dispatch_mode()
        if on_top is not observer:
            observer.counts, self.unknown = False, OBSERVED
            return
        self._leave()
        if has_compiled() or observer.failed is not None:
            self.unknown = observer.failed or COMPILED
            return
        self._held = observer.held(self._agent)

    def _leave(self) -> None:
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.leave()


def trained(agent: Agent) -> tuple[list[Any], list[Any], list[Any]]:
    """Parameters of all modules, their buffers, and what optimizers keep, of which weights of their own are a part."""
    import torch

    modules = living_modules()
    parameters = [p for module in modules for p in module._parameters.values() if p is not None]
    buffers = [b for module in modules for b in module._buffers.values() if b is not None]
    optimizers = [o for o in gc.get_objects() if issubclass(type(o), torch.optim.Optimizer)]
    known = {id(p) for p in parameters}
    kept = [p for o in optimizers for group in o.param_groups for p in group["params"] if id(p) not in known]
    states: list[Any] = [value for o in optimizers for state in o.state.values() for value in _values(state)]
    return parameters, buffers, [*kept, *(v for v in states if isinstance(v, torch.Tensor))]


def local(tensor: Any) -> Any:
    """Of a tensor that is spread over workers, what is here."""
    return getattr(tensor, "_local_tensor", tensor)


def _values(state: Any) -> list[Any]:
    return list(state.values()) if isinstance(state, dict) else []


def _observer(agent: Agent, started_bytes: Optional[int]) -> Any:
    """What torch calls for every operator between its entering and its leaving."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    plain = (torch.Tensor, torch.nn.Parameter)
    phases = agent.phases

    class Observer(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch says no types here
        counts = True
        failed: Optional[str] = None

        def enter(self) -> None:
            self.sizes: dict[int, int] = {}
            self.watched: dict[int, Any] = {}
            self.gathered: set[int] = (
                set()
            )  # storages that are emptied and filled: others' parts of the weights
            self.total = 0
            self.parameters, self.buffers, self.kept = trained(agent)
            self.device = local(self.parameters[0]).device if self.parameters else torch.device("cpu")
            for tensor in (*self.parameters, *self.buffers, *self.kept, *self.gradients()):
                self.see(tensor)
            self.begin()
            self.resize = torch.UntypedStorage.resize_
            torch.UntypedStorage.resize_ = _resizing(self, self.resize)  # type: ignore[method-assign]
            self.__enter__()  # type: ignore[no-untyped-call]

        def leave(self) -> None:
            self.counts = False
            torch.UntypedStorage.resize_ = self.resize  # type: ignore[method-assign]
            self.__exit__(None, None, None)  # type: ignore[no-untyped-call]

        def begin(self) -> None:
            self.peaks: dict[str, list[int]] = {FORWARD: [0, 0], BACKWARD: [0, 0], OPTIMIZER: [0, 0]}
            self.looked = dict.fromkeys(self.peaks, 0.0)
            self.left: Optional[list[int]] = None  # where backward begins: total, gradients, gathered

        def gradients(self) -> list[Any]:
            return [p.grad for p in (*self.parameters, *self.kept) if p.grad is not None]

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if any(kind not in plain for kind in types):
                return NotImplemented  # what wraps a tensor calls operators of its own, which are seen here
            phase = BACKWARD if phases.backward_depth else OPTIMIZER if phases.in_optimizer else FORWARD
            if phase == BACKWARD and self.counts and self.left is None:
                gathered = sum(self.sizes.get(key, 0) for key in self.gathered)
                self.left = [self.total, self.bytes_of(self.gradients()), gathered]
            out = func(*args, **(kwargs or {}))
            if self.counts:
                try:
                    for tensor in tree_leaves(out):
                        if isinstance(tensor, torch.Tensor):
                            self.see(tensor)
                    self.note(phase)
                except Exception as error:  # the training goes on
                    self.counts, self.failed = False, f"{type(error).__name__}: {error}"
            return out

        def see(self, tensor: Any) -> None:
            tensor = local(tensor)
            if tensor.device != self.device or type(tensor) not in plain:
                return
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key not in self.watched:
                self.watched[key] = weakref.ref(storage, lambda _: self.forget(key))
            self.resized(key, storage.nbytes())

        def forget(self, key: int) -> None:
            self.total -= self.sizes.pop(key, 0)
            self.watched.pop(key, None)
            self.gathered.discard(key)

        def resized(self, key: int, size: int) -> None:
            self.total += size - self.sizes.get(key, 0)
            self.sizes[key] = size

        def note(self, phase: str) -> None:
            peak = self.peaks[phase]
            if self.total <= peak[0]:
                return
            peak[0] = self.total
            if self.total > _WORTH * self.looked[phase]:
                self.looked[phase] = self.total
                peak[1] = self.bytes_of(self.gradients())

        def bytes_of(self, tensors: Any, besides: Any = ()) -> int:
            """Of their storages here, each once."""
            mine = {s._cdata: s.nbytes() for t in tensors if (s := _storage(t, self.device)) is not None}
            others = {s._cdata for t in besides if (s := _storage(t, self.device)) is not None}
            return sum(size for key, size in mine.items() if key not in others)

        def held(self, agent: Agent) -> dict[str, Any]:
            parameters, buffers, kept = trained(agent)
            self.parameters, self.kept = parameters, kept
            sizes = {
                "parameters_bytes": self.bytes_of(parameters),
                "buffers_bytes": self.bytes_of(buffers, besides=parameters),
                "optimizer_bytes": self.bytes_of(kept, besides=parameters),
                "gradients_bytes": max(
                    self.bytes_of(self.gradients()), *(peak[1] for peak in self.peaks.values())
                ),
            }
            # DDP's buckets live all the time, and with them gradients that are views of them
            inside, beside = _bucket_bytes(agent)
            for peak in self.peaks.values():
                peak[1] = max(peak[1], inside) if peak[0] else 0
            left = self.left or [0, 0, 0]
            fixed = sizes["parameters_bytes"] + sizes["buffers_bytes"] + sizes["optimizer_bytes"]
            others = left[0] - max(left[1], inside) - left[2] - beside - fixed
            return {
                **sizes,
                "buckets_bytes": beside if agent.ddp.ddps else None,
                "activations_bytes": max(0, others) if self.left else None,
                "gathered_bytes": left[2] if self.left else None,
                "peaks": self.peaks,
                "peak_bytes": max(peak[0] for peak in self.peaks.values()),
                **_beyond(self.device, started_bytes),
                "shapes": shapes(parameters),
                "parts": parts(agent.network.outermost),
            }

    return Observer()  # type: ignore[no-untyped-call]


def _resizing(observer: Any, original: Any) -> Any:
    """What takes the place of `UntypedStorage.resize_`, by which FSDP frees and takes memory again."""

    def resize_(storage: Any, size: int) -> Any:
        result = original(storage, size)
        if observer.counts and storage._cdata in observer.watched:
            observer.resized(storage._cdata, size)
            observer.gathered.add(storage._cdata)
        return result

    return resize_


def _storage(tensor: Any, device: Any) -> Any:
    tensor = local(tensor)
    return tensor.untyped_storage() if tensor.device == device else None


def _bucket_bytes(agent: Agent) -> tuple[int, int]:
    """Of DDP's buckets: those whose views gradients are, and those that are beside gradients."""
    inside = beside = 0
    for ddp in agent.ddp.ddps:
        size = sum(size for size, _ in bucket_parameters(ddp))
        if getattr(ddp, "gradient_as_bucket_view", False):
            inside += size
        else:
            beside += size
    return inside, beside


def _beyond(device: Any, started_bytes: Optional[int]) -> dict[str, Any]:
    """The most that the process (since torch was imported), or its allocator on the device, has held so far."""
    import torch

    if device.type == "cuda":
        total = int(torch.cuda.get_device_properties(device).total_memory)
        return {"held_bytes": int(torch.cuda.max_memory_reserved(device)), "device_bytes": total}
    most = host.private_peak_bytes()
    known = most is not None and started_bytes is not None
    return {"held_bytes": max(0, (most or 0) - (started_bytes or 0)) if known else None, "device_bytes": None}
