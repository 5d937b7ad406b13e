"""What a step costs: in one Trial (Split), and at a Point over its Trials (Profile)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from paceline.core.estimate import Estimate
from paceline.records.decision import BucketSent
from paceline.records.memory import MemoryUse
from paceline.records.sample import BucketReady
from paceline.records.state import State
from paceline.records.study import Point

WorkerUnit = Literal["worker", "GPU"]


@dataclass(frozen=True, slots=True)
class Split:
    """One Trial's step and where it goes: means over its steady steps, combined over workers in split.py."""

    step_s: float
    compute_s: float | None  # None with the next three: workers exchange in a way whose waits were not seen
    exposed_s: float | None
    wire_s: float | None
    straggle_s: float | None
    bubble_s: float | None  # of a pipeline: what even its busiest stage waits for others' parts of the batch
    hidden_s: float | None
    busy_s: float | None
    input_s: float | None
    optimizer_s: float | None
    samples_per_step: float | None  # of all workers together
    per_worker_batch: int | None
    exchanged_bytes_per_step: float | None
    bus_bytes_per_step: float | None  # what a link carries for them: each operation by its own factor
    peak_memory_bytes: int | None
    overhead_s: float
    steps: int
    slowest_worker: int | None  # named only when its lag stands out
    slowest_lag_s: float | None
    own_s_by_worker: tuple[float, ...]  # each worker's own time per step (waiting excluded)
    step_noise_s: float | None = None  # standard deviation of the typical worker's own time over steps
    settled: bool = True
    buckets: tuple[BucketReady, ...] = ()
    backward_end_s: float | None = None
    bucket_cap_bytes: float | None = None
    missed_steps: int = 0  # of those to be measured: the script ended before them
    slowest_input_s: float | None = None  # what that worker waits for data beyond what the typical one does
    unseen: tuple[
        tuple[str, int], ...
    ] = ()  # why the step was not split: reasons, and in how many communications
    strategy: str | None = None  # how the network is spread over workers: `fsdp2 + tp`
    replicas: int | None = None  # copies of the network that workers hold together
    global_batch: int | None = None  # samples of all workers in most steps
    micro_steps: int = 1  # backwards of one step
    tokens_per_step: float | None = None
    flops: tuple[tuple[str, float], ...] = ()  # of all workers in one step, by the type of number
    loaded: int | None = None  # samples of one replica in most steps, as loaders delivered them
    entered: int | None = None  # and as they entered the network
    memory: MemoryUse | None = None  # of the worker whose tensors take most


@dataclass(frozen=True, slots=True)
class Profile:
    """What a step costs at a Point. Each quantity is an Estimate over launches, or None where it is unknown."""

    point: Point
    state: State
    reason: str | None
    trials: int = 0
    step_s: Estimate | None = None
    compute_s: Estimate | None = None
    exposed_s: Estimate | None = None
    wire_s: Estimate | None = None
    straggle_s: Estimate | None = None
    bubble_s: Estimate | None = None
    hidden_s: Estimate | None = None
    input_s: Estimate | None = None
    optimizer_s: Estimate | None = None
    throughput_per_s: Estimate | None = None
    tokens_per_s: Estimate | None = None
    flops_per_step: Estimate | None = None  # of all workers together
    mfu_ratio: Estimate | None = (
        None  # of the devices' dense peak; None: not counted, or the peak is not known
    )
    speedup: Estimate | None = None
    efficiency_ratio: Estimate | None = None
    exchanged_bytes_per_step: Estimate | None = None
    bus_bytes_per_s: Estimate | None = None
    peak_memory_bytes: Estimate | None = None
    overhead_s: Estimate | None = None
    # a table may give these instead of, or beside, a step time
    epoch_s: Estimate | None = None
    job_s: Estimate | None = None
    # as a table states them, of one step, epoch or training like its times; they may contradict each other
    stated_compute_s: Estimate | None = None
    stated_exchange_s: Estimate | None = None
    stated_bytes_per_s: Estimate | None = None
    accuracy: Estimate | None = None
    epochs: float | None = None
    buckets: tuple[BucketReady, ...] = ()
    backward_end_s: float | None = None
    bucket_cap_bytes: float | None = None  # where DDP closes a bucket
    own_s_by_worker: tuple[float, ...] = ()  # per step, waiting excluded: medians over launches
    step_noise_s: Estimate | None = None  # by how much the typical worker's own time differs over steps
    timeline: tuple[BucketSent, ...] = ()
    strategy: str | None = None  # how the network is spread over workers: `fsdp2 + tp`
    replicas: int | None = None  # copies of the network; None: not measured
    # sampled outside the workers while steps were measured; telemetry.py says how each is combined
    cpu_ratio: Estimate | None = None
    gpu_ratio: Estimate | None = None
    gpu_memory_bytes: Estimate | None = None
    gpu_clock_ratio: Estimate | None = None
    power_watts: Estimate | None = None
    throttled_ratio: Estimate | None = None
    memory: MemoryUse | None = None  # of the worker whose tensors take most, in the run where they do
    unit: WorkerUnit = "worker"  # what one of its workers is called: a GPU where each has one of its own
