"""How long this worker waits for the others, and how many bytes it hands to them.

On CPU, DistributedDataParallel stamps each backward itself (its own logger; reading it costs some microseconds):

    backward      compute_start ─────────── comm_start ───────── compute_end ─── comm_end
                                            |<--- overlap_s ---->|<-- wait_s --->|

compute_end is this worker's arrival: nothing is left to compute. No comm hook is registered there: with one, DDP
divides the gradients in a pass of its own, which costs 7-16% on a network of 5 million parameters. On CUDA, where
such a pass is nearly free and the logger would synchronise the device, a comm hook with events is used (device.py).

Blocking collectives that the script calls itself are waits too, from call to return. How a wait divides into wire and
straggle can only be said over all workers, so the desk says it (paceline.split).
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from time import perf_counter, time_ns
from typing import Any, Callable, Optional

from paceline_agent.device import Device
from paceline_agent.guard import guarded
from paceline_agent.recorder import Recorder

_NEVER = 1 << 30


class Exchanges:
    """The DistributedDataParallel wrappers of this process and the collectives it calls."""

    def __init__(self, recorder: Recorder, *, backend: Optional[str]) -> None:
        self.recorder = recorder
        self.backend = backend
        self.ddps: weakref.WeakSet[Any] = weakref.WeakSet()
        self.device: Optional[Device] = None
        self.user_hook: Optional[str] = None
        self.unseen = False  # collectives whose waits nobody times: asynchronous ones outside DDP
        self.last_backward: Optional[tuple[float, float]] = (
            None  # compute_start, compute_end stamps in seconds
        )
        self._ended_at: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._loss: Any = None
        self._compression = 1.0
        self._hook_s = 0.0
        self._hooks = False  # DDP's forward registers a timing hook
        self._register_hook: Callable[..., None] = lambda *_: None

    # ------------------------------------------------------------ entering

    def install(self) -> None:
        import torch
        import torch.distributed as dist

        if not dist.is_available():
            return
        from torch.nn.parallel import DistributedDataParallel

        self._patch_ddp(DistributedDataParallel)
        for name, payload in _PAYLOADS.items():
            if hasattr(dist, name):
                self._patch_collective(torch, dist, name, payload)
        if self.backend:
            self._override_backend(dist, self.backend)

    def _patch_ddp(self, ddp_class: Any) -> None:
        original_init, original_hook = ddp_class.__init__, ddp_class.register_comm_hook
        self._register_hook = original_hook
        wrapped = guarded(self.recorder, self._wrapped)

        @functools.wraps(original_init)
        def init(ddp: Any, *args: Any, **kwargs: Any) -> None:
            original_init(ddp, *args, **kwargs)
            _keep_group_until_reducer_is_gone(ddp)
            wrapped(ddp)

        @functools.wraps(original_hook)
        def register_comm_hook(ddp: Any, state: Any, hook: Callable[..., Any]) -> None:
            self.user_hook = getattr(hook, "__name__", type(hook).__name__)
            timed = self.device.timed_hook(hook) if self.device is not None else self._timed_hook(hook)
            original_hook(ddp, state, timed)

        ddp_class.__init__ = init
        ddp_class.register_comm_hook = register_comm_hook
        original_builtin = getattr(ddp_class, "_register_builtin_comm_hook", None)
        if original_builtin is not None:

            @functools.wraps(original_builtin)
            def register_builtin(ddp: Any, kind: Any) -> None:
                self.user_hook = str(kind)
                self._compression = 0.5 if "FP16" in str(kind) else 1.0
                original_builtin(ddp, kind)

            ddp_class._register_builtin_comm_hook = register_builtin
        original_buffers = getattr(ddp_class, "_sync_buffers", None)
        if original_buffers is not None:
            synced = guarded(self.recorder, self._buffers_synced)

            @functools.wraps(original_buffers)
            def sync_buffers(ddp: Any) -> None:
                begun = perf_counter()
                original_buffers(ddp)
                synced(ddp, perf_counter() - begun)

            ddp_class._sync_buffers = sync_buffers

    def _wrapped(self, ddp: Any) -> None:
        self.ddps.add(ddp)
        parameter = next((p for p in ddp.module.parameters() if p.requires_grad), None)
        if parameter is None:
            return
        if parameter.device.type != "cuda":
            ddp._set_ddp_runtime_logging_sample_rate(1)
        else:
            self.device = self.device or Device(self.recorder)
            if not self._hooks:
                self._hooks = True
                self._hook_at_first_forward(type(ddp))

    def meet(self, optimizer: Any) -> None:
        """A script without DDP: its weights tell whether its steps run on a device, whose clock then counts."""
        weights = (weight for group in optimizer.param_groups for weight in group["params"])
        if self.device is None and any(weight.device.type == "cuda" for weight in weights):
            self.device = Device(self.recorder)

    def look(self, looking: bool) -> None:
        """DDP takes stamps in the steps that will be looked at, and in no others: they cost it time too."""
        for ddp in self.ddps:
            ddp._set_ddp_runtime_logging_sample_rate(1 if looking else _NEVER)

    def _hook_at_first_forward(self, ddp_class: Any) -> None:
        """On CUDA the timing hook is registered at the first forward, when the user has had the chance to set one."""
        original = ddp_class._pre_forward

        def before(ddp: Any) -> None:
            if self.device is not None and self.user_hook is None:
                self.device.ensure_hook(ddp, self._register_hook)

        ready = guarded(self.recorder, before)

        @functools.wraps(original)
        def pre_forward(ddp: Any, *args: Any, **kwargs: Any) -> Any:
            ready(ddp)
            return original(ddp, *args, **kwargs)

        ddp_class._pre_forward = pre_forward

    def _timed_hook(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """The same hook; what it does before it returns its future blocks backward, so it is exchange, not compute."""

        @functools.wraps(hook)
        def timed(state: Any, bucket: Any) -> Any:
            begun = perf_counter()
            future = hook(state, bucket)
            self._hook_s += perf_counter() - begun
            return future

        return timed

    def _patch_collective(self, torch: Any, dist: Any, name: str, payload: Callable[..., Any]) -> None:
        original = getattr(dist, name)
        exchanged = guarded(self.recorder, self._exchanged)

        @functools.wraps(original)
        def collective(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return original(*args, **kwargs)
            begun = perf_counter()
            result = original(*args, **kwargs)
            exchanged(payload, args, kwargs, perf_counter() - begun, blocking=result is None)
            return result

        setattr(dist, name, collective)

    @staticmethod
    def _override_backend(dist: Any, backend: str) -> None:
        """The study asks for a backend: the script's own choice is replaced when it makes its process group."""
        original = dist.init_process_group

        @functools.wraps(original)
        def init_process_group(*args: Any, **kwargs: Any) -> Any:
            kwargs.pop("backend", None)
            return original(backend, *args[1:], **kwargs)

        dist.init_process_group = init_process_group
        dist.distributed_c10d.init_process_group = init_process_group

    # ------------------------------------------------------------ stepping

    def _buffers_synced(self, ddp: Any, waited_s: float) -> None:
        if self.device is None:
            self.recorder.exchanges.append([waited_s, 0.0])
        self.recorder.exchanged_bytes += sum(b.numel() * b.element_size() for b in ddp.modules_buffers)

    def _exchanged(self, payload: Any, args: Any, kwargs: Any, waited_s: float, *, blocking: bool) -> None:
        tensors = payload(*args, **kwargs)
        self.recorder.exchanged_bytes += sum(t.numel() * t.element_size() for t in tensors)
        self.unseen = self.unseen or not (blocking or self.ddps)
        on_device = any(t.device.type == "cuda" for t in tensors)
        if blocking and not on_device and threading.current_thread() is threading.main_thread():
            self.recorder.exchanges.append([waited_s, 0.0])

    def after_backward(self, tensors: Any) -> None:
        """Read what this backward left behind. Only in steps that are looked at, where the loss is noted too."""
        self._loss = _scalar(tensors)
        self.last_backward = None
        if self.device is not None:
            self.device.after_backward()
            if self.user_hook is None:
                self.recorder.exchanged_bytes += self.device.take_bytes()
            return
        for ddp in self.ddps:
            self._read_logger(ddp)

    def _read_logger(self, ddp: Any) -> None:
        logger = ddp.logger
        logger.set_runtime_stats_and_log()
        stamps = logger._get_ddp_logging_data().ints_map
        end = stamps.get("backward_comm_time_end", 0)
        if end <= max(self._ended_at.get(ddp, 0), self._step_began_ns()):
            return  # no exchange in this backward: no_sync, or another network's
        self._ended_at[ddp] = end
        arrived = stamps["backward_compute_time_end"]
        hook_s, self._hook_s = self._hook_s, 0.0
        wait_s = max(0, end - arrived) * 1e-9 + hook_s
        overlap_s = max(0.0, (arrived - stamps["backward_comm_time_start"]) * 1e-9 - hook_s)
        self.last_backward = (stamps["backward_compute_time_start"] * 1e-9, arrived * 1e-9)
        self.recorder.exchanges.append([wait_s, overlap_s])
        if (
            self.user_hook is None or self._compression != 1.0
        ):  # else its collectives are counted where it calls them
            self.recorder.exchanged_bytes += int(stamps["total_parameter_size_bytes"] * self._compression)

    def _step_began_ns(self) -> int:
        """When the open step began, on the clock of the logger (wall clock)."""
        closed_at = self.recorder.closed_at
        return 0 if closed_at is None else time_ns() - int((perf_counter() - closed_at) * 1e9)

    def loss(self) -> Any:
        """The loss that the last backward began from: a number on CPU, a tensor to be read later on a device."""
        loss, self._loss = self._loss, None
        if loss is None or self.device is not None:
            return loss
        return float(loss)

    def largest_ddp(self) -> Any:
        return max(self.ddps, key=lambda ddp: sum(p.numel() for p in ddp.module.parameters()))


def _keep_group_until_reducer_is_gone(ddp: Any) -> None:
    """Without this a training may never end, with or without an agent: a reducer that is the last to hold its group
    ends gloo's threads while it holds the interpreter's lock, and one of them may be waiting for that lock to drop
    what it has from Python. A group that Python lets go of last gives the lock up first."""
    reducer, group = getattr(ddp, "reducer", None), getattr(ddp, "process_group", None)
    if reducer is not None:
        with contextlib.suppress(TypeError):  # of a torch whose reducer cannot be referred to weakly
            weakref.finalize(reducer, lambda _group: None, group).atexit = False


def _scalar(tensors: Any) -> Any:
    tensor = tensors[0] if isinstance(tensors, (list, tuple)) and tensors else tensors
    if getattr(tensor, "numel", lambda: 0)() != 1:
        return None
    return tensor.detach()


# Which buffers a collective moves, from its own arguments.
_PAYLOADS: dict[str, Callable[..., Any]] = {
    "all_reduce": lambda tensor, *a, **k: (tensor,),
    "broadcast": lambda tensor, *a, **k: (tensor,),
    "reduce": lambda tensor, *a, **k: (tensor,),
    "all_gather": lambda tensor_list, tensor=None, *a, **k: tuple(tensor_list),
    "all_gather_into_tensor": lambda output_tensor, input_tensor=None, *a, **k: (output_tensor,),
    "all_gather_single": lambda output_tensor, input_tensor=None, *a, **k: (output_tensor,),
    "reduce_scatter": lambda output, input_list=(), *a, **k: tuple(input_list),
    "reduce_scatter_tensor": lambda output, input=None, *a, **k: (input,),  # noqa: A006 - torch's own name
    "reduce_scatter_single": lambda output, input=None, *a, **k: (input,),  # noqa: A006 - torch's own name
    "all_to_all_single": lambda output, input=None, *a, **k: (input,),  # noqa: A006
    "barrier": lambda *a, **k: (),
}
