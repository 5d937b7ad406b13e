"""What one training came to: its curve, where that became stable, how long a target took, and what steps waited for.

time to target     seconds from the first step to the end of the first evaluation that reached it
waiting            Σ wait / Σ step over the steps looked at, mean over workers: shares of a step that computed nothing
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from paceline.converge.epochs import Curve, noise_scale, plateau
from paceline.converge.noise_scale import gradient_blocks
from paceline.measure.telemetry import Use
from paceline.records import Estimate, WorkerRecord

__all__ = ["Evaluation", "TrainingSummary", "reached_at", "training_summary"]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The metrics after an epoch (or, of a script, its n-th mark), and the seconds since the first step."""

    epoch: float
    wall_s: float
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class TrainingSummary:
    """One training, finished."""

    metric: str | None
    last: float | None
    best: float | None
    plateau_epoch: Estimate | None
    still_rising: bool | None
    target: float | None
    time_to_target_s: float | None
    steps: int
    step_s: float | None
    throughput_per_s: float | None
    input_ratio: float | None
    exchange_ratio: float | None
    peak_memory_bytes: int | None
    peak_device_bytes: int | None
    cpu_ratio: float | None = None  # share of the cores of a node that its workers kept busy
    gpu_ratio: float | None = None
    noise_scale: Estimate | None = None
    horovod_provided: bool = False  # paceline_horovod answered a script that speaks Horovod


def training_summary(
    history: Sequence[Evaluation],
    workers: Sequence[WorkerRecord],
    *,
    metric: str | None,
    rises: bool,
    target: float | None,
    global_batch: int | None,
    use: Use | None = None,
) -> TrainingSummary:
    """Everything that is said about a training at its end."""
    seen = [e for e in history if metric is not None and metric in e.metrics]
    values = [e.metrics[metric] for e in seen] if metric is not None else []
    rising = [value if rises else -value for value in values]
    curve = Curve(global_batch, tuple(e.epoch for e in seen), tuple(rising))
    stable, censored = plateau(curve) if len(values) >= 4 else (None, None)
    step_s = _step_s(workers)
    return TrainingSummary(
        metric=metric,
        last=values[-1] if values else None,
        best=(max(values) if rises else min(values)) if values else None,
        plateau_epoch=stable,
        still_rising=censored,
        target=target,
        time_to_target_s=None if target is None else reached_at(seen, metric, target=target, rises=rises),
        steps=max((worker.samples[-1].k for worker in workers if worker.samples), default=0),
        step_s=step_s,
        throughput_per_s=global_batch / step_s if global_batch and step_s else None,
        input_ratio=_input_ratio(workers),
        exchange_ratio=_exchange_ratio(workers),
        peak_memory_bytes=_largest(workers, "peak_memory_bytes"),
        peak_device_bytes=_largest(workers, "peak_device_bytes"),
        cpu_ratio=None if use is None else use.cpu_ratio,
        gpu_ratio=None if use is None else use.gpu_ratio,
        noise_scale=_noise(workers),
        horovod_provided=any(worker.manifest.get("horovod") is True for worker in workers),
    )


def reached_at(
    history: Sequence[Evaluation], metric: str | None, *, target: float, rises: bool
) -> float | None:
    """Seconds until the metric was first as good as the target; None if it never was."""
    for evaluation in history:
        value = evaluation.metrics.get(metric or "")
        if value is not None and (value >= target if rises else value <= target):
            return evaluation.wall_s
    return None


def _step_s(workers: Sequence[WorkerRecord]) -> float | None:
    """The median step of the slowest worker: a synchronous step takes as long as its slowest worker."""
    medians = [median(steps) for w in workers if (steps := [s.step_s for s in w.samples if not s.boundary])]
    return max(medians, default=None)


def _input_ratio(workers: Sequence[WorkerRecord]) -> float | None:
    shares = []
    for worker in workers:
        looked = [(s.input_s, s.step_s) for s in worker.samples if s.input_s is not None and not s.boundary]
        if looked:
            shares.append(sum(wait for wait, _ in looked) / sum(step for _, step in looked))
    return fmean(shares) if shares else None


def _exchange_ratio(workers: Sequence[WorkerRecord]) -> float | None:
    shares = []
    for worker in workers:
        looked = [
            (s.exchanges, s.step_s) for s in worker.samples if s.exchanges is not None and not s.boundary
        ]
        if looked:
            waited = sum(exchange.wait_s for exchanges, _ in looked for exchange in exchanges)
            shares.append(waited / sum(step for _, step in looked))
    return fmean(shares) if shares else None


def _noise(workers: Sequence[WorkerRecord]) -> Estimate | None:
    blocks = gradient_blocks(workers)
    return None if blocks is None else noise_scale(blocks.square, blocks.variance, batch=blocks.global_batch)


def _largest(workers: Sequence[WorkerRecord], key: str) -> int | None:
    sizes = [size for worker in workers if isinstance(size := worker.manifest.get(key), int)]
    return max(sizes, default=None)
