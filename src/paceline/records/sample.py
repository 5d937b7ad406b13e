"""What is measured: what every worker recorded of every step, and how its Trial ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.records.accuracy import GradientNorm, Mark
from paceline.records.memory import MemoryUse
from paceline.records.state import State
from paceline.records.step_graph import Exchange
from paceline.records.study import Trial
from paceline.records.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class Sample:
    """What one worker recorded for one step. Durations in seconds on this worker's monotonic clock."""

    k: int
    end_s: float
    step_s: float
    input_s: float | None  # None: no data loader was seen
    optimizer_s: float | None  # None: in a step of a device that was not looked at
    exchanges: tuple[Exchange, ...] | None  # None: not looked at in this step, or not all of it was seen
    samples: int | None  # consumed by this worker in this step, as the data loader delivered them
    exchanged_bytes: int | None  # handed to operations in this step; None: not looked at, or one was missed
    backwards: int
    boundary: bool  # a data loader was (re)started inside this step: not a steady step
    own_s: float  # what the agent itself cost in this step
    loss: float | None = None
    unseen: tuple[tuple[str, int], ...] = ()  # why waits of this step are not known: reasons, and how often
    forwards: int | None = None  # of the network, in training; None: not watched
    entered: int | None = None  # samples that entered them
    tokens: int | None = None  # of these, where they are sequences of ids


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
    memory: MemoryUse | None = None  # None: not looked at, or not all of it was seen


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
    started: str | None = (
        None  # when, by the desk's clock; with the Trial's id it tells one launch from another
    )
    unread: tuple[str, ...] = ()  # what could not be read of files that have no digest, in words
