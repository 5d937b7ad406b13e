"""What DistributedDataParallel sends: its reducer is C++, which nothing in Python sees.

On CPU, DDP stamps each backward itself (its own logger; reading it costs some microseconds):

    backward      compute_start ─────────── comm_start ───────── compute_end ─── comm_end
                                            |   under way        |<--- waiting --->|

compute_end is this worker's arrival: nothing is left to compute. No comm hook is registered there: with one, DDP
divides the gradients in a pass of its own, which costs 7-16% on a network of 5 million parameters. On CUDA, where
such a pass is nearly free and the logger would synchronise the device, a comm hook with events is used (device.py).

What a hook of the user's sends is seen where it calls torch.distributed; the wait for all of it is DDP's. Without one
the backend has counted as many operations as there are buckets, or something was missed.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from time import perf_counter, time, time_ns
from typing import Any, Callable, Optional

from paceline_agent.guard import guarded
from paceline_agent.record import step_graph
from paceline_agent.record.step_graph import Communication
from paceline_agent.watch.communications import Communications
from paceline_agent.watch.device import Device, on_device
from paceline_agent.watch.phases import BACKWARD

_NEVER = 1 << 30


class DdpSource:
    """The DistributedDataParallel wrappers of this process."""

    def __init__(self, seen: Communications) -> None:
        self.seen = seen
        self.recorder = seen.recorder
        self.ddps: weakref.WeakSet[Any] = weakref.WeakSet()
        self.user_hook: Optional[str] = None
        self.last_backward: Optional[tuple[float, float]] = (
            None  # compute_start, compute_end stamps in seconds
        )
        self._ended_at: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._buckets: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._hooked: list[Communication] = []
        self._compression = 1.0
        self._python_hook = False
        self._hooks = False  # DDP's forward registers a timing hook
        self._register_hook: Callable[..., None] = lambda *_: None

    # ------------------------------------------------------------ entering

    def install(self) -> None:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel

        self._patch_ddp(DistributedDataParallel)
        self._patch_broadcasts(dist)

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
            self._python_hook = True
            original_hook(ddp, state, self._watched_hook(hook))

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

    def _patch_broadcasts(self, dist: Any) -> None:
        """Buffers, before every forward: C++ too, and it blocks."""
        original = getattr(dist, "_broadcast_coalesced", None)
        if original is None:
            return
        before, issued = (
            guarded(self.recorder, self.seen.about_to_issue),
            guarded(self.recorder, self.seen.issued),
        )

        @functools.wraps(original)
        def broadcast_coalesced(group: Any, tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.seen.on:
                return original(group, tensors, *args, **kwargs)
            token = before(group, None)
            begun = perf_counter()
            result = original(group, tensors, *args, **kwargs)
            ended = perf_counter()
            if token is not None:
                issued("broadcast", None, token, begun, ended, (tensors,), result)
            return result

        dist._broadcast_coalesced = broadcast_coalesced

    def _wrapped(self, ddp: Any) -> None:
        self.ddps.add(ddp)
        parameter = next((p for p in ddp.module.parameters() if p.requires_grad), None)
        if parameter is None:
            return
        if not on_device(parameter):
            ddp._set_ddp_runtime_logging_sample_rate(1)
        else:
            self.seen.use_device()
            if not self._hooks:
                self._hooks = True
                self._hook_at_first_forward(type(ddp))

    def look(self, looking: bool) -> None:
        """DDP takes stamps in the steps that will be looked at, and in no others: they cost it time too."""
        for ddp in self.ddps:
            ddp._set_ddp_runtime_logging_sample_rate(1 if looking else _NEVER)

    def largest(self) -> Any:
        return max(self.ddps, key=lambda ddp: sum(p.numel() for p in ddp.module.parameters()))

    def _hook_at_first_forward(self, ddp_class: Any) -> None:
        """On CUDA the timing hook is registered at the first forward, when the user has had the chance to set one."""
        original = ddp_class._pre_forward

        def before(ddp: Any) -> None:
            device: Optional[Device] = self.seen.device
            if device is not None and self.user_hook is None and device.takes(ddp):
                self._register_hook(ddp, ddp.process_group, self._watched_hook(all_reduce_hook))

        ready = guarded(self.recorder, before)

        @functools.wraps(original)
        def pre_forward(ddp: Any, *args: Any, **kwargs: Any) -> Any:
            ready(ddp)
            return original(ddp, *args, **kwargs)

        ddp_class._pre_forward = pre_forward

    def _watched_hook(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """The same hook. What it does before it returns its future blocks backward, so it is waiting, not computing;
        on a device, an event is recorded when a bucket is ready and one when its exchange has ended."""
        entered = guarded(self.recorder, self._enter_hook)
        left, done = guarded(self.recorder, self._leave_hook), guarded(self.recorder, Device.bucket_done)

        @functools.wraps(hook)
        def timed(state: Any, bucket: Any) -> Any:
            token = entered() if self.seen.on else None
            begun = perf_counter()
            future = hook(state, bucket)
            if token is None:
                return future
            left(begun, perf_counter())
            device = self.seen.device
            if device is None:
                return future

            def ended(arrived: Any) -> Any:
                done(device, token)
                return arrived.value()

            return future.then(ended)

        del (
            timed.__wrapped__
        )  # torch inspects the signature: it must be ours, whose parameter is called bucket
        return timed

    # ------------------------------------------------------------ stepping

    def _enter_hook(self) -> Any:
        self.seen.hooked = []
        return True if self.seen.device is None else self.seen.device.bucket_ready()

    def _leave_hook(self, begun: float, ended: float) -> None:
        sent, self.seen.hooked = self.seen.hooked or [], None
        if sent and self.seen.device is None:
            sent[0].waits.append((begun, ended))
        self._hooked += sent

    def open(self) -> None:
        """A step begins."""
        self._hooked = []
        self.seen.hooked = None

    def after_backward(self) -> None:
        """Read what this backward left behind. Only in steps that are looked at."""
        self.last_backward = None
        if self.seen.device is not None:
            buckets = self.seen.device.take_buckets()
            sent, self._hooked = self._hooked, []
            if buckets and sent:
                ready, done = buckets[-1]
                sent[-1].waits.append((ready, done))
                sent[-1].owed = None if ready is not None and done is not None else step_graph.NOT_TIMED
            return
        exchanged = [ddp for ddp in self.ddps if self._read_logger(ddp)]
        for group in {id(ddp.process_group): ddp.process_group for ddp in exchanged}.values():
            self._count(group, [ddp for ddp in exchanged if ddp.process_group is group])

    def _read_logger(self, ddp: Any) -> bool:
        """Whether this DDP has exchanged in the backward that has just ended; what it waited is booked."""
        logger = ddp.logger
        logger.set_runtime_stats_and_log()
        data = logger._get_ddp_logging_data()
        stamps = data.ints_map
        end = stamps.get("backward_comm_time_end", 0)
        if end <= max(self._ended_at.get(ddp, 0), self._step_began_ns()):
            return False  # no exchange in this backward: no_sync, or another network's
        self._ended_at[ddp] = end
        arrived = stamps["backward_compute_time_end"]
        self.last_backward = (stamps["backward_compute_time_start"] * 1e-9, arrived * 1e-9)
        self._buckets[ddp] = stamps.get("num_buckets_reduced", 0)
        size = int(stamps["total_parameter_size_bytes"] * self._compression) if not self._python_hook else 0
        group = self.seen.groups.of(ddp.process_group)
        if group is None:
            self.seen.graph.alone_bytes += size
            return False
        to_perf = perf_counter() - time()
        wait = (arrived * 1e-9 + to_perf, max(arrived, end) * 1e-9 + to_perf)
        sent, self._hooked = self._hooked, []
        if sent:
            sent[-1].waits.append(wait)
        else:
            begun = stamps["backward_comm_time_start"] * 1e-9 + to_perf
            dtype = str(next(ddp.module.parameters()).dtype).rpartition(".")[2]
            whole = Communication("all_reduce", group, size, dtype, BACKWARD, begun)
            whole.owed = None
            whole.waits.append(wait)
            self.seen.graph.add(whole)
        return True

    def _count(self, process_group: Any, ddps: list[Any]) -> None:
        """Book as seen what the reducers have sent, if it is what their buckets need: else something was missed."""
        group = self.seen.groups.of(process_group)
        unseen = None if group is None else group.unseen()
        if group is None or unseen is None:
            return
        buckets = 0 if self._python_hook else sum(self._buckets[ddp] for ddp in ddps)
        maps = sum(
            bool(ddp.find_unused_parameters) for ddp in ddps
        )  # one more each: which parameters were used
        if unseen in (buckets, buckets + maps):
            group.seen += unseen

    def _step_began_ns(self) -> int:
        """When the open step began, on the clock of the logger (wall clock)."""
        closed_at = self.recorder.closed_at
        return 0 if closed_at is None else time_ns() - int((perf_counter() - closed_at) * 1e9)


def all_reduce_hook(group, bucket):  # type: ignore[no-untyped-def] # torch refuses annotations it does not know
    """What DDP does without a hook: scale by 1/n, then sum. A multiplication, as in DDP's own path: bit-identical."""
    import torch.distributed as dist

    buffer = bucket.buffer()
    buffer.mul_(1.0 / dist.get_world_size(group))
    future = dist.distributed_c10d.all_reduce(buffer, group=group, async_op=True).get_future()
    return future.then(lambda done: done.value()[0])


def _keep_group_until_reducer_is_gone(ddp: Any) -> None:
    """Without this a training may never end, with or without an agent: a reducer that is the last to hold its group
    ends gloo's threads while it holds the interpreter's lock, and one of them may be waiting for that lock to drop
    what it has from Python. A group that Python lets go of last gives the lock up first."""
    reducer, group = getattr(ddp, "reducer", None), getattr(ddp, "process_group", None)
    if reducer is not None:
        with contextlib.suppress(TypeError):  # of a torch whose reducer cannot be referred to weakly
            weakref.finalize(reducer, lambda _group: None, group).atexit = False
