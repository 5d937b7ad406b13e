"""Is the evidence of a table sound? Rows and Profiles -> Findings, each with number, threshold and the next step.

Every check is arithmetic on what the table itself says; none needs to know what was trained.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

from paceline.check.table_training import training_findings
from paceline.core import calibration
from paceline.core.units import bytes_text, duration_text, percent_text, rate_text
from paceline.measure.comparable import SUPERLINEAR_RATIO
from paceline.measure.series import all_series
from paceline.predict.observations import time_of
from paceline.records import Finding, Profile, TimeKind
from paceline.table.profiles import baseline_of
from paceline.table.read import Row, Table

__all__ = ["table_findings"]

_JOB_RATIO = 0.05
_FLAT_RATIO = 1.15
_FEWEST_REPEATS = 3
_GROWTH_RATIO = 1.5
_SAME_DEVICE_RATIO = 0.05


def table_findings(table: Table, profiles: Sequence[Profile]) -> tuple[Finding, ...]:
    """Every check over the table."""
    kind = table.time_kind or "step"
    return (
        *_superlinear(profiles),
        *_superlinear_rows(table.rows, kind),
        *_epoch_bytes(table.rows),
        *_job_time(table.rows),
        *_flat(profiles, kind),
        *_parts(table.rows),
        *_dilation(table.rows),
        *_bandwidth(table.rows),
        *_steps(table.rows),
        *training_findings(table.rows),
        *_devices(profiles, kind),
        *_scaling_said(profiles),
        *_repeats(profiles),
        *_failed(profiles),
    )


def _superlinear(profiles: Sequence[Profile]) -> Iterator[Finding]:
    for profile in profiles:
        efficiency = profile.efficiency_ratio
        base = baseline_of(profile, profiles)
        if efficiency is None or base is None or efficiency.value <= 1.02:
            continue
        if efficiency.low is not None and efficiency.low <= 1.0:
            continue
        more = profile.point.workers / base.point.workers
        speedup = profile.speedup.value if profile.speedup else math.nan
        yield Finding(
            "super-linear",
            "void" if efficiency.value > SUPERLINEAR_RATIO else "doubt",
            f"runs {speedup:.2f}x as fast as {base.point.id} with {more:g}x the workers: "
            "the two measurements are not comparable (another machine, data, cache or code)",
            value=efficiency.value,
            threshold=SUPERLINEAR_RATIO,
            hint="repeat both on the same machine with the same data",
            point=profile.point.id,
        )


def _superlinear_rows(rows: Sequence[Row], kind: TimeKind) -> Iterator[Finding]:
    """The same for the time of a training where the table is mainly about epochs or steps."""
    if kind == "job":
        return
    groups: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if row.job_s is not None and row.state == "ok":
            groups[(row.series, row.backend, row.per_worker_batch, row.epochs)].append(row)
    for group in groups.values():
        first = min(group, key=lambda row: row.workers)
        for row in group:
            gain = (first.job_s or 0.0) / (row.job_s or math.inf) / (row.workers / first.workers)
            if row.workers > first.workers and gain > 1.02:
                yield Finding(
                    "super-linear",
                    "doubt",
                    f"row {row.line}: the training takes {duration_text(row.job_s)} on {row.workers} workers and "
                    f"{duration_text(first.job_s)} on {first.workers}, faster than the workers allow: not comparable",
                    value=gain,
                    threshold=1.02,
                    hint="repeat both on the same machine with the same data",
                )


def _epoch_bytes(rows: Sequence[Row]) -> Iterator[Finding]:
    """Bytes per epoch fall with the batch only because there are fewer steps; each step sends the same."""
    known = [r for r in rows if r.bytes_per_epoch and r.samples and r.per_worker_batch]
    if len({r.per_worker_batch for r in known}) < 2:
        return
    whole = [
        (r, (r.bytes_per_epoch or 0) / math.ceil((r.samples or 0) / (r.per_worker_batch or 1))) for r in known
    ]
    sizes = [size for _, size in whole]
    if max(sizes) / min(sizes) < 1.02:
        yield Finding(
            "same-bytes-every-step",
            "note",
            f"every step communicates {bytes_text(median(sizes))} whatever the batch: bytes per epoch change only with "
            "the number of steps",
            value=max(sizes) / min(sizes),
            threshold=1.02,
        )
        several = max((r.workers for r, _ in whole), default=1)
        if several > 1:
            yield Finding(
                "steps-not-divided",
                "doubt",
                f"the bytes per epoch count as many steps as 1 worker takes; {several} workers share the data set "
                f"and take {several} times fewer",
                value=float(several),
                threshold=1.0,
                hint="steps per epoch = samples / (workers × per-worker batch)",
            )
    if median(sizes) < 1e6:
        yield Finding(
            "latency-bound",
            "note",
            f"{bytes_text(median(sizes))} per step are far below what fills a link. Sending them costs latency "
            "only, so more workers may be slower than one",
            value=median(sizes),
            threshold=1e6,
        )


def _job_time(rows: Sequence[Row]) -> Iterator[Finding]:
    """epochs × time of an epoch against the time of the training."""
    for row in rows:
        if row.epochs is None or row.epoch_s is None or row.job_s is None:
            continue
        product = row.epochs * row.epoch_s
        if product > row.job_s * (1 + _JOB_RATIO):
            yield Finding(
                "epochs-exceed-job",
                "void",
                f"row {row.line}: {row.epochs:g} epochs of {duration_text(row.epoch_s)} take "
                f"{duration_text(product)}, "
                f"longer than the whole training of {duration_text(row.job_s)}",
                value=product / row.job_s,
                threshold=1 + _JOB_RATIO,
                hint="check which of the three figures belongs to another training",
            )
        elif product < row.job_s * 0.7:
            rest = row.job_s - product
            yield Finding(
                "fixed-cost",
                "doubt",
                f"row {row.line}: {row.epochs:g} epochs of {duration_text(row.epoch_s)} explain "
                f"{duration_text(product)} of {duration_text(row.job_s)}; "
                f"{percent_text(rest / row.job_s)} is start-up and loading, "
                "which no worker count changes",
                value=rest / row.job_s,
                threshold=0.3,
                hint="measure epochs or steps, and the start-up apart",
            )


def _flat(profiles: Sequence[Profile], kind: TimeKind) -> Iterator[Finding]:
    """Fixed work whose time does not fall: how much of it cannot be what the workers share."""
    if kind not in ("epoch", "job"):
        return
    for series in all_series(p for p in profiles if p.state == "ok"):
        group = series.profiles
        times = [(p.point.workers, t.value, p.epochs) for p in group if (t := time_of(p, kind)) is not None]
        if (
            len(times) < 2
            or times[-1][0] < 2 * times[0][0]
            or (kind == "job" and times[0][2] != times[-1][2])
        ):
            continue
        (few, slow, _), (many, fast, _) = times[0], times[-1]
        if slow / fast >= _FLAT_RATIO:
            continue
        share = min(1.0, max(0.0, (fast / slow - few / many) / (1 - few / many)))
        yield Finding(
            "flat-in-workers",
            "doubt",
            f"from {few} to {many} workers the time goes from {duration_text(slow)} to {duration_text(fast)}. "
            f"About {percent_text(share)} of it does not depend on the workers (start-up, loading)",
            value=share,
            threshold=0.5,
            hint="time single epochs: only those can scale",
        )


def _parts(rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        whole = row.step_s or row.epoch_s or row.job_s
        if row.compute_s is None or row.exchange_s is None or whole is None:
            continue
        total = row.compute_s + row.exchange_s
        if total > 1.02 * whole:
            yield Finding(
                "parts-exceed-whole",
                "void",
                f"row {row.line}: computing {duration_text(row.compute_s)} and communication "
                f"{duration_text(row.exchange_s)} add up to {duration_text(total)}, more than the "
                f"{duration_text(whole)} that was measured",
                value=total / whole,
                threshold=1.02,
                hint="the part called computing probably is the whole: measure without communication (no_sync)",
            )


def _dilation(rows: Sequence[Row]) -> Iterator[Finding]:
    """Exchange moves the same bytes at any batch: time that grows with the batch is slower computing."""
    groups: dict[tuple[object, ...], list[tuple[int, float]]] = defaultdict(list)
    for row in rows:
        if row.exchange_s is None or row.workers < 2 or row.per_worker_batch is None:
            continue
        steps = _steps_per_epoch(row) if row.step_s is None else 1.0
        if steps:
            groups[(row.series, row.workers, row.nodes)].append(
                (row.per_worker_batch, row.exchange_s / steps)
            )
    for (_, workers, _), pairs in groups.items():
        pairs.sort()
        (small, short), (large, long) = pairs[0], pairs[-1]
        if large > small and short > 0 and long / short > _GROWTH_RATIO:
            yield Finding(
                "exchange-grows-with-batch",
                "doubt",
                f"at {workers} workers communication per step grows from {duration_text(short)} at batch {small} to "
                f"{duration_text(long)} at batch {large}, with the same gradients. So it is computing, slowed by "
                "the other workers of the host",
                value=long / short,
                threshold=_GROWTH_RATIO,
                hint="measure communication directly, not by subtraction",
            )


def _bandwidth(rows: Sequence[Row]) -> Iterator[Finding]:
    """A stated or implied bandwidth that no link has, or that does not follow from bytes and seconds."""
    for row in rows:
        implied = _implied_bandwidth(row)
        for value, name in ((row.bandwidth, "stated"), (implied, "implied")):
            if value is not None and value > calibration.FASTEST_LINK.value:
                yield Finding(
                    "impossible-bandwidth",
                    "void",
                    f"row {row.line}: the {name} bandwidth of {rate_text(value)} is faster than any link",
                    value=value,
                    threshold=calibration.FASTEST_LINK.value,
                    hint="bytes per step × 2(N−1)/N over seconds per step; check the unit",
                )
        if row.bandwidth is not None and implied is not None and not 0.5 < row.bandwidth / implied < 2.0:
            yield Finding(
                "bandwidth-does-not-follow",
                "doubt",
                f"row {row.line}: {rate_text(row.bandwidth)} is stated, but bytes over the time of "
                f"communication give {rate_text(implied)}",
                value=row.bandwidth / implied,
                threshold=2.0,
                hint="count one all-reduce per step, and 2(N−1)/N of the gradient bytes",
            )


def _steps(rows: Sequence[Row]) -> Iterator[Finding]:
    """Steps, epochs, samples and batch must agree on the worker count."""
    for row in rows:
        if not row.steps or not row.samples or not row.epochs or not row.per_worker_batch:
            continue
        implied = row.samples * row.epochs / row.per_worker_batch / row.steps
        if not 0.9 < implied / row.workers < 1.1:
            yield Finding(
                "steps-disagree",
                "void",
                f"row {row.line}: {row.steps:g} steps over {row.epochs:g} epochs mean {implied:.1f} workers, "
                f"not {row.workers}",
                value=implied,
                threshold=float(row.workers),
                hint="correct the number of workers, or say how the data were split",
            )


def _devices(profiles: Sequence[Profile], kind: TimeKind) -> Iterator[Finding]:
    """Different devices, same time at the same setting: the device is not what limits."""
    settings: dict[tuple[object, ...], list[tuple[str, float]]] = defaultdict(list)
    for profile in profiles:
        time = time_of(profile, kind)
        name = ", ".join(value for _, value in profile.point.varied)
        if time is not None and name:
            settings[(profile.point.workers, profile.point.nodes, profile.point.per_worker_batch)].append(
                (name, time.value)
            )
    for (workers, _, _), times in settings.items():
        times.sort(key=lambda item: item[1])
        if len({name for name, _ in times}) > 1 and times[-1][1] / times[0][1] - 1 < _SAME_DEVICE_RATIO:
            yield Finding(
                "same-on-every-device",
                "doubt",
                f"at {workers} workers {times[0][0]} and {times[-1][0]} take the same time "
                f"({duration_text(times[0][1])}, {duration_text(times[-1][1])}): something other than the "
                f"device limits, most likely the input",
                value=times[-1][1] / times[0][1],
                threshold=1 + _SAME_DEVICE_RATIO,
                hint="measure the time spent waiting for data",
            )


def _scaling_said(profiles: Sequence[Profile]) -> Iterator[Finding]:
    """Which scaling the table shows."""
    counts = {p.point.scaling: 0 for p in profiles}
    for profile in profiles:
        counts[profile.point.scaling] += 1
    fixed_work = any(p.epoch_s is not None or p.job_s is not None for p in profiles)
    text = " and ".join(
        f"{mode} scaling ({count} setting{'s' if count > 1 else ''})" for mode, count in counts.items()
    )
    if fixed_work and "weak" in counts:
        text += ". The time of an epoch or training is strong scaling over a fixed data set"
    yield Finding("scaling", "note", f"the table shows {text}")


def _repeats(profiles: Sequence[Profile]) -> Iterator[Finding]:
    measured = [p for p in profiles if p.state == "ok"]
    if measured and median([p.trials for p in measured]) < _FEWEST_REPEATS:
        single = sum(p.trials == 1 for p in measured)
        yield Finding(
            "too-few-repeats",
            "doubt" if single < len(measured) else "note",
            f"{single} of {len(measured)} setting{'s were' if len(measured) > 1 else ' was'} measured once: "
            f"{'their' if len(measured) > 1 else 'its'} own variation is unknown",
            value=float(median([p.trials for p in measured])),
            threshold=float(_FEWEST_REPEATS),
            hint="give every repeat a row of its own",
        )


def _failed(profiles: Sequence[Profile]) -> Iterator[Finding]:
    for profile in profiles:
        if profile.state != "ok":
            yield Finding(
                "failed-point",
                "note",
                f"ended in state {profile.state}: {profile.reason}",
                point=profile.point.id,
            )


def _steps_per_epoch(row: Row) -> float | None:
    if row.samples is None or row.per_worker_batch is None:
        return None
    return max(1.0, math.ceil(math.ceil(row.samples / row.workers) / row.per_worker_batch))


def _implied_bandwidth(row: Row) -> float | None:
    """Bus bandwidth: 2(N−1)/N × gradient bytes × steps over the seconds of exchange."""
    if row.gradient_bytes is None or not row.exchange_s or row.workers < 2:
        return None
    steps = 1.0 if row.step_s is not None else _steps_per_epoch(row)
    if steps is None:
        return None
    return 2 * (row.workers - 1) / row.workers * row.gradient_bytes * steps / row.exchange_s
