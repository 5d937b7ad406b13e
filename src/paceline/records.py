"""Every noun of the desk, as frozen data. Units are in the names; unknown is None.

The words are those of docs/words.md. Records hold no behaviour beyond what follows from their own fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from paceline.records_accuracy import AccuracyCurve as AccuracyCurve
from paceline.records_accuracy import Comparison as Comparison
from paceline.records_accuracy import Convergence as Convergence
from paceline.records_accuracy import Goal as Goal
from paceline.records_accuracy import GradientNorm as GradientNorm
from paceline.records_accuracy import Mark as Mark
from paceline.records_decision import Answer as Answer
from paceline.records_decision import BucketSent as BucketSent
from paceline.records_decision import Decision as Decision
from paceline.records_decision import FittedLine as FittedLine
from paceline.records_decision import Option as Option
from paceline.records_estimate import Estimate as Estimate
from paceline.records_probe import BesideTime as BesideTime
from paceline.records_probe import DeviceProbe as DeviceProbe
from paceline.records_probe import DeviceRate as DeviceRate
from paceline.records_probe import LinkClass as LinkClass
from paceline.records_probe import LinkProbe as LinkProbe
from paceline.records_probe import Probe as Probe
from paceline.records_probe import ProbeRow as ProbeRow
from paceline.records_probe import ProbeTime as ProbeTime
from paceline.records_probe import SteadyProbe as SteadyProbe
from paceline.records_slurm import Allocation as Allocation
from paceline.records_telemetry import Course as Course
from paceline.records_telemetry import Telemetry as Telemetry

State = Literal["ok", "oom", "crashed", "hung", "timeout", "diverged", "cancelled"]
Scaling = Literal["weak", "strong"]
Level = Literal["note", "doubt", "void"]
Start = Literal["torchrun", "script"]
TargetKind = Literal["script", "module", "workload"]
TimeKind = Literal[
    "step", "epoch", "job", "sample"
]  # sample: seconds per sample, where only a throughput is known

STATES: tuple[State, ...] = ("ok", "oom", "crashed", "hung", "timeout", "diverged", "cancelled")


# ---------------------------------------------------------------- what is asked


@dataclass(frozen=True, slots=True)
class Workload:
    """The training command: a script file, a module, or one of Paceline's own workloads, and its arguments."""

    kind: TargetKind
    name: str
    args: tuple[str, ...] = ()
    start: Start = "torchrun"  # who starts the workers: torchrun, or the script itself (mp.spawn)
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


# ---------------------------------------------------------------- what is measured


@dataclass(frozen=True, slots=True)
class Exchange:
    """One wait of one worker for the others' gradients (or another blocking collective).

    wait_s: from its own arrival (nothing left to compute) until released. overlap_s: the part of the
    collectives that ran before the arrival, under this worker's own computation.
    """

    wait_s: float
    overlap_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """What one worker recorded for one step. Durations in seconds on this worker's monotonic clock."""

    k: int
    end_s: float
    step_s: float
    input_s: float | None  # None: no data loader was seen
    optimizer_s: float | None  # None: in a step of a device that was not looked at
    exchanges: tuple[Exchange, ...] | None  # None: not looked at in this step
    samples: int | None  # consumed by this worker in this step, as the data loader delivered them
    exchanged_bytes: int | None  # handed to collectives in this step; None: not looked at
    backwards: int
    boundary: bool  # a data loader was (re)started inside this step: not a steady step
    own_s: float  # what the agent itself cost in this step
    loss: float | None = None


@dataclass(frozen=True, slots=True)
class BucketReady:
    """One gradient bucket: its bytes and when its last gradient was ready, seconds after the step began."""

    size_bytes: int
    ready_s: float


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """All that one worker wrote: its samples and its manifest (device, versions, environment, memory, checks)."""

    rank: int
    world: int
    samples: tuple[Sample, ...]
    manifest: Mapping[str, object]
    marks: tuple[Mark, ...] = ()
    gradients: tuple[GradientNorm, ...] = ()


@dataclass(frozen=True, slots=True)
class TrialResult:
    """How a Trial ended, and what every worker recorded."""

    trial: Trial
    state: State
    reason: str | None
    workers: tuple[WorkerRecord, ...]
    wall_s: float
    log_tail: str = ""
    telemetry: tuple[Telemetry, ...] = ()
    script_sha256: str | None = None  # of the script as it was launched; None: a module, or not known


@dataclass(frozen=True, slots=True)
class Split:
    """One Trial's step and where it goes: means over its steady steps, combined over workers in split.py."""

    step_s: float
    compute_s: float | None  # None with the next three: workers exchange in a way whose waits were not seen
    exposed_s: float | None
    wire_s: float | None
    straggle_s: float | None
    hidden_s: float | None
    busy_s: float | None
    input_s: float | None
    optimizer_s: float | None
    samples_per_step: float | None  # of all workers together
    per_worker_batch: int | None
    exchanged_bytes_per_step: float | None
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


# ---------------------------------------------------------------- what is concluded


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
    hidden_s: Estimate | None = None
    input_s: Estimate | None = None
    optimizer_s: Estimate | None = None
    throughput_per_s: Estimate | None = None
    speedup: Estimate | None = None
    efficiency_ratio: Estimate | None = None
    exchanged_bytes_per_step: Estimate | None = None
    bus_bytes_per_s: Estimate | None = None
    peak_memory_bytes: Estimate | None = None
    overhead_s: Estimate | None = None
    # a table may give these instead of, or beside, a step time
    epoch_s: Estimate | None = None
    job_s: Estimate | None = None
    accuracy: Estimate | None = None
    epochs: float | None = None
    buckets: tuple[BucketReady, ...] = ()
    backward_end_s: float | None = None
    bucket_cap_bytes: float | None = None  # where DDP closes a bucket
    own_s_by_worker: tuple[float, ...] = ()  # per step, waiting excluded: medians over launches
    step_noise_s: Estimate | None = None  # by how much the typical worker's own time differs over steps
    timeline: tuple[BucketSent, ...] = ()
    # sampled outside the workers while steps were measured; telemetry.py says how each is combined
    cpu_ratio: Estimate | None = None
    gpu_ratio: Estimate | None = None
    gpu_memory_bytes: Estimate | None = None
    gpu_clock_ratio: Estimate | None = None
    power_watts: Estimate | None = None
    throttled_ratio: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """One class of connection between workers: latency per hop and bandwidth, measured or declared, with source."""

    latency_s: float
    bytes_per_s: float
    name: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check says: level note, doubt or void, its number and threshold, and the next command or step."""

    id: str
    level: Level
    message: str
    value: float | None = None
    threshold: float | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Fit:
    """A cost model fitted to the Curve, and what the data cannot identify."""

    parameters: Mapping[str, Estimate]
    unidentified: tuple[str, ...]
    held_out_error: Mapping[str, float | None]  # method -> relative error at the largest measured count
    explanation: str = ""
    lines: tuple[FittedLine, ...] = ()


@dataclass(frozen=True, slots=True)
class Projection:
    """A predicted Profile at a count that was not measured, with a 90% prediction interval."""

    workers: int
    nodes: int
    per_worker_batch: int | None
    time_s: Estimate
    time_kind: TimeKind
    step_s: Estimate | None
    throughput_per_s: Estimate | None
    speedup: Estimate | None
    efficiency_ratio: Estimate | None
    time_to_accuracy_s: Estimate | None
    explanation: str
    scaling: Scaling | None = None
    baseline: str | None = None  # id of the Point that its speed-up is relative to


@dataclass(frozen=True, slots=True)
class Refusal:
    """A count that we will not project to: the rule, why, and the measurement that would lift it with its price."""

    workers: int
    rule: str
    reason: str
    would_help: str


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One change, the gain to expect, what it costs, and the condition under which it holds."""

    goal: str
    workers: int | None
    per_worker_batch: int | None
    lr_rule: str | None
    gain: Estimate | None
    cost: Estimate | None
    condition: str
    text: str


@dataclass(frozen=True, slots=True)
class Threshold:
    """A line that sound, worthwhile scaling keeps to: the sentence, what was seen, the line, whether it holds.

    holds is None where the interval of what was seen lies on both sides of the line.
    """

    id: str
    message: str
    value: float
    threshold: float
    holds: bool | None


@dataclass(frozen=True, slots=True)
class Failure:
    """A Trial that did not end ok, with the end of what it printed."""

    trial: str
    workers: int
    state: State
    reason: str | None
    wall_s: float
    log_tail: str


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything derived from a Study or a table. analysis.json is this record; the report adds nothing to it."""

    verdict: str
    points: tuple[Profile, ...]
    findings: tuple[Finding, ...]
    baseline: str | None = None  # id of the Point that speed-up is relative to
    source: Mapping[str, object] = field(default_factory=dict)  # command, versions, host, devices: provenance
    fit: Fit | None = None
    projections: tuple[Projection, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    recommendations: tuple[Recommendation, ...] = ()
    convergence: Convergence | None = None
    thresholds: tuple[Threshold, ...] = ()
    failures: tuple[Failure, ...] = ()
    decision: Decision | None = None
    links: tuple[LinkProbe, ...] = ()
    devices: tuple[DeviceProbe, ...] = ()
    courses: tuple[Course, ...] = ()
    answers: tuple[Answer, ...] = ()  # to what the study's recipe asks
