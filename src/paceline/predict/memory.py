"""The memory of a setting that was not measured, from one or more that were, and whether it fits.

    peak      = max over forward, backward, optimizer of
                weights + buffers + optimizer state + gradients at that time        by the rule of the strategy
                + others' weights, buckets                                          by the rule of the strategy
                + the rest:  a + c · per-worker batch (a constant in the optimizer) fitted
    held      = peak + what no tensor holds (kernels' workspaces, the allocator, the interpreter)

Each worker holds its own batch: the rest does not depend on how many there are. From one batch alone a is taken as 0.
What precision, activation checkpointing and other flags do is not computed: settings of other flags tell nothing here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from paceline.core import calibration
from paceline.predict.sharding import share, transient_bytes
from paceline.records import Estimate, Fits, MemoryForecast, MemoryUse, Profile, TensorPeak

__all__ = ["Known", "fits", "forecast", "known_of"]

_STRATEGY_FLAG = "strategy"
_PLAIN = ("none", "ddp", "zero1", "fsdp2", "hsdp")
_ALWAYS = ("ddp", "zero1")  # whose buckets hold gradients all the time


@dataclass(frozen=True, slots=True)
class Known:
    """One setting whose memory was measured."""

    point: str
    workers: int
    batch: int
    strategy: str
    varied: tuple[tuple[str, str], ...]
    use: MemoryUse


def known_of(profile: Profile) -> Known | None:
    """What a measured point tells; None where the batch or the memory was not seen, or its strategy has no rule."""
    point, use = profile.point, profile.memory
    strategy = "none" if point.workers == 1 else profile.strategy or "none"
    if use is None or point.per_worker_batch is None or not use.shapes or strategy not in _PLAIN:
        return None
    return Known(point.id, point.workers, point.per_worker_batch, strategy, others(point.varied), use)


def others(varied: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """The varied flags without the one that says the strategy."""
    return tuple((flag, value) for flag, value in varied if flag.lstrip("-") != _STRATEGY_FLAG)


def forecast(
    known: Sequence[Known], *, workers: int, batch: int, strategy: str, limit_bytes: int | None
) -> MemoryForecast:
    """The fullest worker's memory at this setting. All that is known must be of one network and one set of flags."""
    strategy = "none" if workers == 1 else strategy
    same = [k for k in known if k.strategy == strategy]
    batches = {k.batch for k in same}
    used = same if same and (len(batches) > 1 or batches == {batch}) else list(known)
    first = same[0] if same else used[0]
    fixed, buckets = _fixed(first, strategy, workers), _buckets(first, strategy, workers)
    views = (
        0 if first.use.buckets_bytes is None else buckets
    )  # gradients may be views of buckets: then there are none
    low, value, high = 0.0, 0.0, 0.0
    for phase in ("forward", "backward", "optimizer"):
        rest = _line([(k.batch, _rest(k, phase)) for k in used], batch, phase)
        own = fixed + _gradients(first, strategy, workers, phase)
        transient = transient_bytes(first.use, strategy, workers)
        certain = any(k.strategy == strategy for k in used)
        spread = _spread(used, batch) * rest
        value = max(value, own + buckets + transient + rest)
        low = max(low, own + views + (transient if certain else 0.5 * transient) + rest - spread)
        high = max(high, own + buckets + (transient if certain else 2.0 * transient) + rest + spread)
    tensors = Estimate(value, low, high, len(used))
    held = _held(used, tensors, workers=workers, batch=batch)
    return MemoryForecast(
        workers=workers,
        per_worker_batch=batch,
        strategy=strategy,
        varied=first.varied,
        tensors_bytes=tensors,
        held_bytes=held,
        limit_bytes=limit_bytes,
        fits=fits(held or tensors, limit_bytes),
        measured=tuple(k.point for k in used),
    )


def fits(size: Estimate, limit_bytes: int | None) -> Fits | None:
    """Whether it fits; unsure where the limit lies in its interval."""
    if limit_bytes is None:
        return None
    low, high = size.low or size.value, size.high or size.value
    return "yes" if high <= limit_bytes else "no" if low > limit_bytes else "unsure"


def _peak(use: MemoryUse, phase: str) -> TensorPeak:
    return {"forward": use.forward, "backward": use.backward, "optimizer": use.optimizer}[phase]


def _fixed(known: Known, strategy: str, workers: int) -> float:
    """Weights, buffers and optimizer state, from what another setting has of them."""
    here, there = (
        share(known.use.shapes, known.strategy, known.workers),
        share(known.use.shapes, strategy, workers),
    )
    state = known.use.optimizer_bytes * there.kept_bytes / here.kept_bytes if here.kept_bytes else 0.0
    return there.parameters_bytes + known.use.buffers_bytes + state


def _buckets(known: Known, strategy: str, workers: int) -> float:
    """DDP's buckets beside gradients; where none were seen torch's default, a copy of all gradients."""
    if strategy not in _ALWAYS:
        return 0.0
    seen = known.use.buckets_bytes
    return share(known.use.shapes, strategy, workers).trained_bytes if seen is None else seen


def _gradients(known: Known, strategy: str, workers: int, phase: str) -> float:
    """Gradients that live when this part of the step peaks."""
    all_of_them = share(known.use.shapes, strategy, workers).trained_bytes
    if strategy in _ALWAYS or phase == "optimizer":
        return all_of_them
    if known.strategy in _ALWAYS:
        return 0.0  # activations peak where backward has hardly begun
    here = share(known.use.shapes, known.strategy, known.workers).trained_bytes
    return _peak(known.use, phase).gradients_bytes * all_of_them / here if here else 0.0


def _rest(known: Known, phase: str) -> float:
    """What the rules do not explain of a measured peak."""
    use, peak = known.use, _peak(known.use, phase)
    ruled = use.parameters_bytes + use.buffers_bytes + use.optimizer_bytes + peak.gradients_bytes
    transient = 0 if phase == "optimizer" else transient_bytes(use, known.strategy, known.workers)
    return peak.total_bytes - ruled - (use.buckets_bytes or 0) - transient


def _line(points: Sequence[tuple[int, float]], batch: int, phase: str) -> float:
    """The least-squares line through (batch, rest) at this batch; through the origin where there is one batch."""
    rests = [rest for _, rest in points]
    if phase == "optimizer":
        return max(0.0, fmean(rests))
    batches = [float(size) for size, _ in points]
    middle, mean = fmean(batches), fmean(rests)
    varies = sum((size - middle) ** 2 for size in batches)
    if not varies:
        return max(0.0, mean * batch / middle)
    slope = sum((size - middle) * rest for size, rest in zip(batches, rests, strict=True)) / varies
    return max(0.0, mean + max(0.0, slope) * (batch - middle))


def _spread(used: Sequence[Known], batch: int) -> float:
    """How far the rest may be off, as a share of it: hardly where two batches were measured, or this one."""
    batches = {k.batch for k in used}
    return (
        calibration.MEMORY_REST if len(batches) > 1 or batch in batches else calibration.MEMORY_REST_OF_ONE
    ).value


def _held(used: Sequence[Known], tensors: Estimate, *, workers: int, batch: int) -> Estimate | None:
    """With what no tensor holds: of settings with as many processes to talk to, where there are any."""
    seen = [k for k in used if k.use.held_bytes is not None]
    alike = [k for k in seen if (k.workers > 1) == (workers > 1)] or seen
    beyond = [(k.batch, float((k.use.held_bytes or 0) - k.use.peak_bytes)) for k in alike]
    if not beyond:
        return None
    middle = max(0.0, fmean(size for _, size in beyond))
    off = max(calibration.MEMORY_BEYOND.value * middle, *(abs(size - middle) for _, size in beyond))
    low, high = tensors.low or tensors.value, tensors.high or tensors.value
    return Estimate(tensors.value + middle, low + max(0.0, middle - off), high + middle + off, len(beyond))
