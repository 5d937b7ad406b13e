"""What workers used, seen from outside. A piece of a TrialResult; paceline.records offers it too."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Course", "Telemetry"]


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What one Worker used at one moment, sampled outside its process. Device fields are None without NVML."""

    rank: int
    node: int
    t_s: float  # monotonic clock of the node, the one of Sample.end_s
    cpu_s: float  # CPU seconds so far, of the worker and its children
    rss_bytes: int
    node_cores: float  # a quota may leave less than a whole one
    gpu_ratio: float | None = None  # share of the last sampling period with a kernel under way
    gpu_memory_bytes: int | None = None
    gpu_clock_ratio: float | None = None  # clock of the multiprocessors / their highest clock
    power_watts: float | None = None
    throttled: tuple[str, ...] = ()  # why the device held its clock back
    device: str | None = None
    periods: int | None = None  # of its CPU limit (a container's), so far; None without one
    stopped_periods: int | None = None  # in which the limit was used up before they ended


@dataclass(frozen=True, slots=True)
class Course:
    """What one Worker used over one Trial, sample by sample; seconds since the first of them."""

    point: str  # id of the Point
    trial: str
    worker: int
    t_s: tuple[float, ...]
    cores: tuple[float, ...]  # in use since the sample before
    memory_bytes: tuple[int, ...]  # resident
    gpu_ratio: tuple[float | None, ...] = ()
    gpu_memory_bytes: tuple[int | None, ...] = ()
