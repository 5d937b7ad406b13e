"""What is asked: a Study of one Workload, its Points, and the Trials that measure them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from paceline.records.accuracy import Goal
from paceline.records.allocation import Allocation

Scaling = Literal["weak", "strong"]
Start = Literal["torchrun", "script", "accelerate", "deepspeed"]
TargetKind = Literal["script", "module", "workload"]


@dataclass(frozen=True, slots=True)
class Workload:
    """The training command: a script file, a module, or one of Paceline's own workloads, and its arguments."""

    kind: TargetKind
    name: str
    args: tuple[str, ...] = ()
    start: Start = "torchrun"  # who starts the workers; script: it does so itself (mp.spawn)
    batch_flag: str | None = None  # the script's own flag for the per-worker batch, e.g. "--batch-size"
    lr_flag: str | None = None
    seed_flag: str | None = None


@dataclass(frozen=True, slots=True)
class Study:
    """One question about one Workload over a set of Points."""

    workload: Workload
    workers: tuple[int, ...] = (1, 2)
    scaling: tuple[Scaling, ...] = ("weak",)
    per_worker_batch: tuple[int, ...] = ()  # empty: whatever the script does by itself
    global_batch: tuple[int, ...] = ()
    backends: tuple[str, ...] = ()  # empty: whatever the script chooses
    vary: tuple[tuple[str, tuple[str, ...]], ...] = ()
    lr: float | None = None
    steps: int = 40
    warmup: int = 10
    repeats: int = 5
    tight_ratio: float = 0.03  # a point is finished early when its half-interval is below this share
    timeout_s: float = 600.0
    hang_s: float = 60.0
    budget_device_s: float | None = None
    keep_going: bool = False  # also after a first run that died before its first step
    flops: bool = True  # of one step that is not timed
    threads: int | None = None  # CPU threads per worker, the same at every point
    python: str | None = None  # interpreter that has the script's torch; None: the desk's own
    name: str = "study"
    directory: str | None = None  # where the script runs; None: where the desk was started
    nodes: tuple[int, ...] = ()  # empty: one node; else workers are nodes x workers_per_node
    workers_per_node: tuple[int, ...] = ()
    goal: Goal | None = None  # None: steps are timed; else every trial is a training, and every repeat a seed
    memory_limit_bytes: int | None = (
        None  # of every worker on the host, beyond what it has when torch is imported
    )
    slurm: Allocation | None = None  # None: on machines that are here; else in an allocation of Slurm
    find_batch: bool = (
        False  # search the largest per-worker batch that fits, from the smallest that is asked for
    )
    try_anyway: bool = False  # also what surely does not fit
    recipe: str | None = None  # the recipe whose questions this study answers


@dataclass(frozen=True, slots=True)
class Point:
    """One setting that is measured: how many workers, which batch, which scaling, which backend, which varied flags."""

    id: str
    workers: int
    nodes: int = 1
    per_worker_batch: int | None = None
    global_batch: int | None = None
    scaling: Scaling = "weak"
    backend: str | None = None
    varied: tuple[tuple[str, str], ...] = ()
    variant: str = "as_is"

    @property
    def series(self) -> tuple[object, ...]:
        """What Points share that are compared as worker counts of one Series."""
        batch = self.per_worker_batch if self.scaling == "weak" else self.global_batch
        return (self.scaling, self.backend, self.varied, self.variant, batch)

    @property
    def launched_as(self) -> tuple[object, ...]:
        """What a launch knows of it. Points that only differ in what they are compared with share their launches."""
        batch = (self.per_worker_batch, self.global_batch)
        return (self.workers, self.nodes, batch, self.backend, self.varied, self.variant)


@dataclass(frozen=True, slots=True)
class Trial:
    """One launch of one Point."""

    id: str
    point: Point
    repeat: int
    args: tuple[str, ...]  # the script's arguments, every placeholder filled in


@dataclass(frozen=True, slots=True)
class Plan:
    """The Trials of a Study in the order that fights drift, and what they are expected to cost at most."""

    points: tuple[Point, ...]
    trials: tuple[Trial, ...]
    device_s: float  # workers x seconds, all trials
    wall_s: float
    assumed_step_s: float  # the price rests on this; after the first trial it is measured
