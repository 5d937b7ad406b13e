"""The agent itself: waits for the first optimizer step, records every step, and ends the trial.

Passive until a process takes an optimizer step, so torchrun, data-loader workers and helper processes of the script,
which all inherit the environment, never become workers.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import os
import signal
import sys
from time import monotonic, perf_counter, sleep
from typing import Any, Optional

from paceline_agent import FORMAT
from paceline_agent.guard import guarded, stop_measuring
from paceline_agent.manifest import manifest
from paceline_agent.record import files, host
from paceline_agent.record.recorder import Recorder
from paceline_agent.record.step_graph import NOT_LOOKED
from paceline_agent.record.strategy import Strategy
from paceline_agent.settings import Settings
from paceline_agent.watch import horovod, metrics
from paceline_agent.watch.captured import Graphs
from paceline_agent.watch.collectives import watch_collectives
from paceline_agent.watch.communications import Communications
from paceline_agent.watch.ddp import DdpSource
from paceline_agent.watch.device import on_device
from paceline_agent.watch.flops import Flops
from paceline_agent.watch.functional import watch_functional
from paceline_agent.watch.keras_steps import watch_keras
from paceline_agent.watch.loader import learnt_from, watch_loaders
from paceline_agent.watch.memory.follow import Memory
from paceline_agent.watch.network import Network, living_modules
from paceline_agent.watch.noise import Noise
from paceline_agent.watch.phases import Phases, watch_backward
from paceline_agent.watch.standstill import Standstill
from paceline_agent.watch.target import Target
from paceline_agent.watch.timeline import Timeline

STACKS_SIGNAL = 7  # SIGRTMIN + 7: no training framework uses it
WORKER = "PACELINE_WORKER"  # the pid of the process that torchrun started, for those that it starts itself
_PEERS_S = 30.0


class Agent:
    """One per process. Opens when torch has been imported, closes when the trial ends."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.recorder = Recorder(settings.steps)
        self.recorder.failed = self._failed
        self.phases = Phases()
        self.seen = Communications(self.recorder, self.phases)
        self.ddp = DdpSource(self.seen)
        self.graphs = Graphs()
        self.network = Network(self)
        self.strategy = Strategy()
        self.flops = Flops(wanted=settings.flops, warmup=settings.warmup)
        self.memory = Memory(self, warmup=settings.warmup)
        self.timeline = Timeline()
        self.noise = Noise(self.recorder, every=settings.noise_every, first=settings.last_step)
        self.target: Optional[Target] = None
        if settings.target is not None:
            self.target = Target(
                settings.folder, target=settings.target, metric=settings.metric, rises=settings.rises
            )
        self.rank: Optional[int] = None
        self.world = 1
        self.standstill = Standstill(
            settings.folder, hang_s=settings.hang_s, steps=lambda: self.recorder.k, number=self._number
        )
        self.optimizer: Any = None
        self.optimizer_begun = 0.0
        self.optimizer_s = 0.0
        self.optimizer_mark: Any = None
        self.started_s = monotonic()
        self.window: list[tuple[float, int, dict[str, Optional[float]]]] = []
        self.loader_info: dict[str, Any] = {}
        self.fingerprints: list[int] = []
        self._loss: Any = None
        self.delivered: Optional[tuple[dict[str, Any], Optional[int]]] = None
        self._heartbeat: Optional[files.Heartbeat] = None
        self._written = False
        self._grouped = False
        self._stacks: Any = None
        self._turns = (settings.warmup, settings.warmup + settings.steps)
        self._to_monotonic = monotonic() - perf_counter()

    # ------------------------------------------------------------ entering

    def install(self) -> None:
        """Hook into torch. Every hook is guarded; a torch that lacks one of these names is measured without it."""
        import torch
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        self.recorder.active = True
        register_optimizer_step_pre_hook(guarded(self.recorder, self.before_optimizer))
        register_optimizer_step_post_hook(guarded(self.recorder, self.after_optimizer))
        self.phases.learn(torch)
        watch_backward(torch, self.phases, guarded(self.recorder, self.after_backward))
        guarded(self.recorder, watch_keras)(self)
        guarded(self.recorder, watch_loaders)(self)
        if torch.distributed.is_available():
            for watch in (watch_collectives, watch_functional):
                guarded(self.recorder, watch)(self.seen)
            guarded(self.recorder, self.ddp.install)()
            guarded(self.recorder, self._watch_init)(torch.distributed)
        guarded(self.recorder, self.graphs.watch)(self, torch.cuda.CUDAGraph)
        if self.settings.training:
            guarded(self.recorder, metrics.watch)(
                self.recorder, metric=self.settings.metric, noted=self.noted
            )
        atexit.register(self.script_ended, "returned")
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def _watch_init(self, dist: Any) -> None:
        """From the first process group on the worker is looked after; a backend that the study asks for replaces the
        script's own choice."""
        original, asked = dist.init_process_group, self.settings.backend

        @functools.wraps(original)
        def init_process_group(*args: Any, **kwargs: Any) -> Any:
            if not is_helper():
                self.standstill.start()
            if asked:
                kwargs.pop("backend", None)
                args = (asked, *args[1:])
            return original(*args, **kwargs)

        dist.init_process_group = init_process_group
        dist.distributed_c10d.init_process_group = init_process_group

    def begin(self) -> files.Heartbeat:
        """The first optimizer step: this process is a worker. Its number is asked for now, while the group lives."""
        self.rank, self.world = _rank_and_world()
        self._grouped = _in_group()
        host.die_with_parent()
        horovod.watch(self.seen)
        self.rank = files.own_number(self.settings.folder, self.rank, self.world)
        heartbeat = files.Heartbeat(self.settings.folder, self.rank)
        heartbeat.phase(0, files.STEPPING)
        self._stacks = open(  # noqa: SIM115 - faulthandler keeps it open for the life of the process
            os.path.join(self.settings.folder, f"stacks-{self.rank}.txt"), "w", encoding="utf-8"
        )
        faulthandler.register(signal.SIGRTMIN + STACKS_SIGNAL, file=self._stacks, all_threads=True)
        return heartbeat

    # ------------------------------------------------------------ stepping

    def before_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self.graphs.open is not None:
            return
        if self.seen.device is not None:
            self.optimizer_mark = self.seen.device.mark() if self.recorder.looking else None
        self.phases.in_optimizer = True
        self.optimizer_begun = perf_counter()

    def after_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        now = perf_counter()
        if self.graphs.open is not None:
            self.graphs.open.optimizers.append(optimizer)
            return
        if self.phases.is_nested_optimizer():
            return  # the one that steps it ends the step (ZeroRedundancyOptimizer broadcasts after it)
        self.phases.in_optimizer = False
        # A closure (Lightning) runs forward and backward inside optimizer.step: that is not the optimizer's time.
        self.optimizer_s += now - max(self.optimizer_begun, self.recorder.backward_end)
        self._stepped(optimizer, now)

    def _meet(self, optimizer: Any) -> None:
        """The first step has ended: what is trained, how it is spread, and whose clock counts."""
        try:
            self.phases.learn_engines()
            modules = living_modules()
            self.network.meet(modules, optimizer)
            self.strategy.meet(modules, optimizer, ddp=bool(self.ddp.ddps), horovod=horovod.in_use())
        except Exception as error:  # its steps can be timed all the same
            self.recorder.problems.append(f"the network was not found: {type(error).__name__}: {error}")
        weights = (weight for group in optimizer.param_groups for weight in group["params"])
        if any(on_device(weight) for weight in weights):
            self.seen.use_device()

    def _loss_value(self) -> Any:
        """The loss that the last backward began from: a number on CPU, a tensor to be read later on a device."""
        loss, self._loss = self._loss, None
        return loss if loss is None or self.seen.device is not None else float(loss)

    def replayed(self, optimizer: Any) -> None:
        """A CUDA graph has taken this optimizer's step again."""
        self.optimizer_mark = None
        self._stepped(optimizer, perf_counter())

    def _stepped(self, optimizer: Any, now: float) -> None:
        recorder = self.recorder
        if not recorder.ends_step(optimizer):
            return
        if self._heartbeat is None:
            if is_helper():
                recorder.active = False
                return
            self._heartbeat = self.begin()
            self._meet(optimizer)
        else:
            self.network.step_ended()
        self.optimizer = optimizer
        learnt_from(self)
        device = self.seen.device
        marker = None if device is None else device.close_step(self.optimizer_mark)
        if recorder.looking:
            recorder.loss = self._loss_value()
        looked = recorder.looking
        graph = self.seen.close(recorder.closed_at)
        recorder.close_step(now, self.optimizer_s, marker, graph)
        if recorder.looking is not looked:
            self.ddp.look(recorder.looking)
        self.seen.open(recorder.looking)
        self.ddp.open()
        self.optimizer_s = 0.0
        self.flops.step_ended(recorder.k)
        self.memory.step_ended(recorder.k)
        self._heartbeat.step(recorder.k, now + self._to_monotonic)
        if recorder.k in self._turns or recorder.k > self.settings.warmup + self.settings.steps:
            self._turn(recorder.k, now)
        if self.settings.noise_every:
            self.noise.step_ended(recorder.k, self.ddp, world=self.world)
        if self.target is not None and self.target.ends(recorder.k):
            self.end("enough")

    def noted(self, name: str, value: float) -> None:
        """A metric was marked."""
        if self.target is not None:
            self.target.noted(name, value, self.recorder.k)

    def _turn(self, k: int, now: float) -> None:
        """What is due after step k: windows open and close here, between steps."""
        plan = self.settings
        if k in self._turns:
            self.window.append((now, k, host.cpu_seconds()))
        if k == plan.warmup + plan.steps and plan.profile and self.ddp.ddps:
            self.timeline.open(self.ddp.largest(), on_device=self.seen.device is not None)
        if k >= plan.warmup + plan.steps:
            self.timeline.step_ended(now)
        if k == plan.last_step:
            self.timeline.close()
            self.network.close()
            if plan.end:
                self.end("enough")

    def after_backward(self, tensors: Any) -> None:
        if self.graphs.open is not None:
            self.graphs.open.backwards += 1
            return
        self.recorder.backward_end = perf_counter()
        self.recorder.backwards += 1
        if self.noise.is_open:
            self.noise.after_backward()
        if self.recorder.looking or self.timeline.is_open:
            self._loss = _scalar(tensors)
            self.ddp.after_backward()
            self.timeline.after_backward(self.ddp.last_backward)
        elif self.seen.device is not None:
            self.seen.device.take_buckets()

    # ------------------------------------------------------------ ending

    def end(self, reason: str) -> None:
        """Write everything, wait until every local worker has, and leave with exit code 0.

        Leaving by os._exit: unwinding the script would run its finally blocks, that is, half of a training's end.
        If another worker's measuring has stopped, that one trains on and needs this one: then nobody leaves."""
        self._write(reason)
        if not self._all_written():
            return
        for child in reversed(host.children()):
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(0)

    def script_ended(self, reason: str) -> None:
        """The script ended by itself or raised: write what there is."""
        if self.rank is None or self._written or not self.recorder.active:
            return
        try:
            self._write(reason)
        except Exception as error:
            stop_measuring(
                self.recorder, f"could not write the measurements: {type(error).__name__}: {error}"
            )

    def _write(self, reason: str) -> None:
        assert self.rank is not None
        recorder, folder = self.recorder, self.settings.folder
        recorder.active = False
        steps = recorder.records()
        if self.seen.device is not None:
            self.seen.device.resolve(steps)
        for step in steps:
            del step["marker"]
            graph = step.pop("graph")
            step.update(NOT_LOOKED if graph is None else graph.fields())
        header = {
            "record": "header",
            "format": FORMAT,
            "rank": self.rank,
            "world": self.world,
            "pid": os.getpid(),
        }
        gradients = self.noise.results()
        ending = {"record": "end", "reason": reason, "steps": recorder.k}
        files.write_json(folder, f"manifest-{self.rank}.json", manifest(self))
        graphs = self.seen.graphs.records()
        lines = [header, *graphs, self.memory.record(), *steps, *recorder.marks, *gradients, ending]
        files.write_lines(folder, f"worker-{self.rank}.jsonl", lines)
        self._written = True
        if self._heartbeat is not None:
            self._heartbeat.phase(recorder.k, files.FINISHED)

    def _all_written(self) -> bool:
        """Wait until every worker of this host has written its file. No collective: the trial's folder is enough."""
        # never more than take part: LOCAL_WORLD_SIZE and WORLD_SIZE may be left over from another launcher
        most = self.world if self._grouped else self.settings.workers
        local = min(int(os.environ.get("LOCAL_WORLD_SIZE") or self.world), most)
        until = monotonic() + _PEERS_S
        while monotonic() < until:
            names = os.listdir(self.settings.folder)
            if sum(name.startswith("worker-") for name in names) >= local:
                return True
            if any(name.startswith("failed-") for name in names):
                return False
            sleep(0.02)
        return False

    def _number(self) -> int:
        """This worker's number, also before its first step."""
        return _rank_and_world()[0] if self.rank is None else self.rank

    def _failed(self) -> None:
        """Measuring stopped. Training goes on; the reason is written if the folder still takes it."""
        with contextlib.suppress(Exception):
            if self.rank is None:
                self.rank, self.world = _rank_and_world()
            if self._heartbeat is not None:
                self._heartbeat.phase(self.recorder.k, files.FAILED)
            known = {"format": FORMAT, "rank": self.rank, "world": self.world, "pid": os.getpid()}
            problems = {**known, "problems": self.recorder.problems}
            files.write_json(self.settings.folder, f"manifest-{self.rank}.json", problems)
            files.write_json(self.settings.folder, f"failed-{self.rank}", {})

    def _forked(self) -> None:
        """In a forked child: forget everything; it becomes a worker only if it takes optimizer steps itself."""
        if self.rank is not None:
            self.recorder.active = False
            return
        fresh = Recorder(self.settings.steps)
        self.recorder.__dict__.update(
            {name: value for name, value in fresh.__dict__.items() if name != "active"}
        )
        self.recorder.failed = self._failed


def is_helper() -> bool:
    """Whether a worker of torchrun has started this process for work of its own: an actor, an evaluator.

    It may take optimizer steps, but in no group; measured, it would pass for a worker and be ended like one."""
    worker = os.environ.get(WORKER)
    by_torchrun = "TORCHELASTIC_RUN_ID" in os.environ
    return by_torchrun and worker not in (None, str(os.getpid())) and not _in_group()


def _in_group() -> bool:
    import torch.distributed as dist

    return dist.is_available() and dist.is_initialized()


def _rank_and_world() -> tuple[int, int]:
    import torch.distributed as dist

    if _in_group():
        return dist.get_rank(), dist.get_world_size()
    return int(os.environ.get("RANK") or 0), int(os.environ.get("WORLD_SIZE") or 1)


def _scalar(tensors: Any) -> Any:
    tensor = tensors[0] if isinstance(tensors, (list, tuple)) and tensors else tensors
    if getattr(tensor, "numel", lambda: 0)() != 1:
        return None
    return tensor.detach()
