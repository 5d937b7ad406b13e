"""Rows of a table -> Profiles: repeats brought together, strong and weak told apart, speed-up against a Baseline.

weak     the per-worker batch stays, the global batch grows        strong   the global batch stays
step_s   time of an epoch / ceil(ceil(D/N)/b) steps, where data set and batch are known
speedup  ratio of work per second: fixed work (epoch, training) T₀/T; steps N·b/T over N₀·b₀/T₀
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median

from paceline.core.stats import estimate, ratio, scaled
from paceline.records import Estimate, Point, Profile, Scaling, TimeKind
from paceline.table.read import Row, Table

__all__ = ["baseline_of", "data_set_size", "profiles_of"]

Key = tuple[object, ...]


def profiles_of(table: Table) -> tuple[Profile, ...]:
    """One Profile per setting of the table, with speed-up and efficiency where its series has a Baseline."""
    groups: dict[Key, list[Row]] = defaultdict(list)
    for row in table.rows:
        groups[
            (row.series, row.backend, row.workers, row.nodes, row.per_worker_batch, row.global_batch)
        ].append(row)
    scaling = _scalings(table.rows)
    names = _ids(groups)
    kind = table.time_kind or "step"
    found = [_profile(rows, names[key], kind, scaling) for key, rows in groups.items()]
    found.sort(key=lambda p: _place(p.point))
    rows_by_id = {names[key]: rows for key, rows in groups.items()}
    named = [replace(profile, unit=table.unit) for profile in found]
    return tuple(_with_speedup(p, baseline_of(p, named), rows_by_id, kind) for p in named)


def data_set_size(table: Table) -> int | None:
    """Samples in the data set, where the table names exactly one size."""
    sizes = {row.samples for row in table.rows if row.samples is not None}
    return sizes.pop() if len(sizes) == 1 else None


def baseline_of(profile: Profile, profiles: Sequence[Profile]) -> Profile | None:
    """The fewest workers of the same series; a strong series may begin with a point that also starts a weak one."""
    point = profile.point
    same = []
    for other in profiles:
        at = other.point
        if other.state != "ok" or (at.varied, at.backend) != (point.varied, point.backend):
            continue
        alike = (
            at.per_worker_batch == point.per_worker_batch
            if point.scaling == "weak"
            else at.global_batch == point.global_batch
        )
        if alike:
            same.append(other)
    return min(same, key=lambda p: (p.point.workers, p.point.nodes), default=None)


def _place(point: Point) -> Key:
    """Where a Point stands in the table: the counts of one Curve together and ascending, weak before strong."""
    batch = point.per_worker_batch if point.scaling == "weak" else point.global_batch
    return (point.varied, point.scaling != "weak", batch or 0, point.workers, point.nodes)


def _profile(rows: Sequence[Row], name: str, kind: TimeKind, scaling: Mapping[int, Scaling]) -> Profile:
    first = rows[0]
    point = Point(
        id=name,
        workers=first.workers,
        nodes=first.nodes,
        per_worker_batch=first.per_worker_batch,
        global_batch=first.global_batch,
        scaling=scaling[id(first)],
        backend=first.backend,
        varied=first.series,
    )
    done = [row for row in rows if row.state == "ok"]
    if not done:
        return Profile(point, first.state, f"row {first.line} says {first.state}", trials=len(rows))
    steps = [_steps_per_epoch(row) for row in done]
    step = _known(done, _step_s)
    throughput = _known(done, _throughput)
    epoch = _known(done, lambda row: row.epoch_s)
    job = _known(done, lambda row: row.job_s)
    exchange = [row.exchange_s for row in done]
    exposed = None
    if all(x is not None for x in exchange):
        factors = [1.0 if kind == "step" else n for n in steps]
        if all(f is not None for f in factors):
            values = [x / f for x, f in zip(exchange, factors, strict=True) if x is not None and f]
            exposed = Estimate(median(values), None, None, len(values)) if values else None
    gradient = _known(done, lambda row: row.gradient_bytes)
    return Profile(
        point=point,
        state="ok",
        reason=None,
        trials=len(done),
        step_s=step,
        exposed_s=exposed,
        throughput_per_s=throughput,
        exchanged_bytes_per_step=gradient,
        epoch_s=epoch,
        job_s=job,
        stated_compute_s=_known(done, lambda row: row.compute_s),
        stated_exchange_s=_known(done, lambda row: row.exchange_s),
        stated_bytes_per_s=_known(done, lambda row: row.bandwidth),
        accuracy=_known(done, lambda row: row.accuracy or None),
        epochs=next((row.epochs for row in done if row.epochs is not None), None),
    )


def _steps_per_epoch(row: Row) -> float | None:
    if row.samples is None or row.per_worker_batch is None:
        return None
    return max(1.0, math.ceil(math.ceil(row.samples / row.workers) / row.per_worker_batch))


def _step_s(row: Row) -> float | None:
    """The step time that a row gives, or implies."""
    if row.step_s is not None:
        return row.step_s
    steps = _steps_per_epoch(row)
    if row.epoch_s is not None and steps:
        return row.epoch_s / steps
    if (
        row.throughput_per_s is not None
        and row.global_batch is not None
        and row.epoch_s is None
        and row.job_s is None
    ):
        return row.global_batch / row.throughput_per_s
    return None


def _throughput(row: Row) -> float | None:
    if row.throughput_per_s is not None:
        return row.throughput_per_s
    if row.step_s is not None and row.global_batch is not None:
        return row.global_batch / row.step_s
    if row.samples is not None and row.epoch_s is not None:
        return row.samples / row.epoch_s
    if row.samples is not None and row.job_s is not None and row.epochs is not None:
        return row.samples * row.epochs / row.job_s
    return None


def _known(rows: Sequence[Row], value: Callable[[Row], float | None]) -> Estimate | None:
    found = [x for row in rows if (x := value(row)) is not None]
    return estimate(found) if found else None


def _with_speedup(
    profile: Profile, baseline: Profile | None, rows: Mapping[str, Sequence[Row]], kind: TimeKind
) -> Profile:
    if baseline is None or profile.state != "ok":
        return profile
    here = _work_per_s(rows[profile.point.id], kind)
    there = _work_per_s(rows[baseline.point.id], kind)
    gain = ratio(here, there)
    if gain is None:
        return profile
    if profile.point.id == baseline.point.id:
        gain = Estimate(1.0, 1.0, 1.0, len(here))
    more = profile.point.workers / baseline.point.workers
    return replace(profile, speedup=gain, efficiency_ratio=scaled(gain, 1.0 / more))


def _work_per_s(rows: Sequence[Row], kind: TimeKind) -> list[float]:
    """Work per second of every repeat: samples where they are known, else pieces of the fixed work."""
    found = []
    for row in rows:
        if row.state != "ok":
            continue
        if kind == "sample" and row.throughput_per_s is not None:
            found.append(row.throughput_per_s)
        elif kind == "step" and (step := _step_s(row)) is not None:
            found.append((row.global_batch or row.workers) / step)
        elif kind == "epoch" and row.epoch_s is not None:
            found.append(1.0 / row.epoch_s)
        elif kind == "job" and row.job_s is not None:
            found.append((row.epochs or 1.0) / row.job_s)
    return found


def _scalings(rows: Sequence[Row]) -> dict[int, Scaling]:
    """Weak where another count has the same per-worker batch, strong where one has the same global batch."""
    each: dict[Key, set[int]] = defaultdict(set)
    total: dict[Key, set[int]] = defaultdict(set)
    for row in rows:
        each[(row.series, row.backend, row.per_worker_batch)].add(row.workers)
        total[(row.series, row.backend, row.global_batch)].add(row.workers)
    found: dict[int, Scaling] = {}
    for row in rows:
        if row.per_worker_batch is None:
            found[id(row)] = (
                "weak" if row.step_s is not None or row.throughput_per_s is not None else "strong"
            )
        elif len(each[(row.series, row.backend, row.per_worker_batch)]) > 1:
            found[id(row)] = "weak"
        else:
            found[id(row)] = (
                "strong" if len(total[(row.series, row.backend, row.global_batch)]) > 1 else "weak"
            )
    return found


def _ids(groups: Mapping[Key, Sequence[Row]]) -> dict[Key, str]:
    """w4, w4-b32, w4-n2-b32-T4: as short as they can be and still differ."""
    several_nodes = len({rows[0].nodes for rows in groups.values()}) > 1
    ids: dict[Key, str] = {}
    taken: set[str] = set()
    for key, rows in groups.items():
        row = rows[0]
        parts = [f"w{row.workers}"]
        parts += [f"n{row.nodes}"] if several_nodes else []
        parts += [f"b{row.per_worker_batch}"] if row.per_worker_batch is not None else []
        parts += [value.replace(" ", "_") for _, value in row.series]
        parts += [row.backend] if row.backend else []
        name, number = "-".join(parts), 2
        while name in taken:
            name = f"{'-'.join(parts)}-{number}"
            number += 1
        taken.add(name)
        ids[key] = name
    return ids
