"""Any table of measurements -> Rows in base units, with everything that was understood said aloud.

Reads CSV (comma or semicolon), TSV, Markdown and text pasted with aligned columns. Columns may stand in any order.
What cannot be understood is refused with the row, the column and the fix: nothing is guessed silently.

A bare `time` or `seconds` is the time of a fixed piece of work (a whole training); a bare `batch` is per worker.
Both are said.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from paceline.core.errors import TableError
from paceline.records import State, TimeKind, WorkerUnit
from paceline.table.cells import table_cells
from paceline.table.columns import (
    FAILED,
    TIMES,
    Column,
    Quantity,
    bytes_of,
    column,
    count,
    number,
    share,
    time_s,
    unknown,
)

__all__ = ["Row", "Table", "read_settings", "read_table"]

Times = Literal["step", "epoch", "job"]
_COUNTS = ("workers", "workers_per_node")


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement, as a table states it; None where the table does not say."""

    line: int
    workers: int
    nodes: int = 1
    state: State = "ok"
    step_s: float | None = None
    epoch_s: float | None = None
    job_s: float | None = None
    throughput_per_s: float | None = None
    per_worker_batch: int | None = None
    global_batch: int | None = None
    epochs: float | None = None
    steps: float | None = None
    accuracy: float | None = None
    loss: float | None = None
    exchange_s: float | None = None
    compute_s: float | None = None
    gradient_bytes: float | None = None
    bandwidth: float | None = None
    bytes_per_epoch: float | None = None
    samples: int | None = None
    validation_samples: int | None = None
    lr: float | None = None
    warmup_epochs: float | None = None
    plateau_epoch: float | None = None
    backend: str | None = None
    series: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """All Rows, and what each column was taken for."""

    rows: tuple[Row, ...]
    understood: tuple[str, ...]
    quantities: frozenset[Quantity]
    time_kind: TimeKind | None  # the table's own quantity; None: it gives no time (only allowed with --at)
    unit: WorkerUnit = "worker"  # what it calls a worker


_MEANING: dict[Quantity, str] = {
    "workers": "number of workers",
    "nodes": "number of nodes",
    "workers_per_node": "workers per node",
    "time": "time of the whole work (say --time step or --time epoch if it is not)",
    "step_s": "time of one step",
    "epoch_s": "time of one epoch",
    "job_s": "time of the whole training",
    "throughput_per_s": "samples per second, all workers together",
    "throughput_per_worker": "samples per second of one worker",
    "batch": "samples per worker and step (say global_batch if it is of all workers)",
    "per_worker_batch": "samples per worker and step",
    "global_batch": "samples of all workers per step",
    "epochs": "epochs trained",
    "steps": "steps taken",
    "accuracy": "accuracy",
    "loss": "loss",
    "exchange_s": "time of communicating gradients",
    "compute_s": "time of computing",
    "gradient_bytes": "bytes communicated per step",
    "parameters": "parameters (4 bytes each are communicated)",
    "bandwidth": "bandwidth as stated",
    "bytes_per_epoch": "bytes communicated in one epoch",
    "samples": "samples in the data set",
    "validation_samples": "samples in the validation set",
    "lr": "learning rate",
    "warmup_epochs": "warm-up epochs",
    "plateau_epoch": "epoch at which accuracy became stable",
    "gpu": "device: one curve per device",
    "series": "one curve per value",
    "backend": "backend: one curve per backend",
    "repeat": "repeats of one setting",
    "state": "how the run ended",
}
_ORDER: tuple[TimeKind, ...] = ("step", "epoch", "job")
_TIME_OF: dict[Quantity, TimeKind] = {"step_s": "step", "epoch_s": "epoch", "job_s": "job"}


def read_table(text: str, *, time: Times | None = None) -> Table:
    """The measurements in a text. `time` says what a column called only time or seconds holds."""
    table = _read(text, time)
    if table.time_kind is None and "bytes_per_epoch" not in table.quantities:
        raise TableError(
            f"no column holds a time or a throughput; understood: {', '.join(table.understood)}",
            hint="name a column step_s, step_ms, epoch_s, job_s, time or throughput",
        )
    return table


def read_settings(text: str) -> Table:
    """The settings to predict: a table that needs no time."""
    return _read(text, None)


def _read(text: str, time: Times | None) -> Table:
    if "\x00" in text:
        raise TableError("this is not a text file: it holds zero bytes", hint="save the table as CSV")
    lines = table_cells(text)
    if not lines:
        raise TableError("the table is empty", hint="give a heading line and one row per measurement")
    (_, heading), *body = lines
    columns = _columns(heading, time)
    if not body:
        raise TableError("the table has a heading and no rows", hint="add one row per measurement")
    quantities = frozenset(c.quantity for c in columns)
    readers = [(c, _READERS[c.quantity]) for c in columns]
    rows = tuple(_row(number_, cells, readers, len(heading)) for number_, cells in body)
    kinds = [_TIME_OF[c.quantity] for c in columns if c.quantity in _TIME_OF]
    on_gpu = any(c.quantity in _COUNTS and "gpu" in c.heading.lower() for c in columns)
    return Table(
        rows,
        _understood(heading, columns),
        quantities,
        _own_quantity(rows, kinds, quantities),
        "GPU" if on_gpu else "worker",
    )


def _own_quantity(
    rows: Sequence[Row], kinds: Sequence[TimeKind], quantities: frozenset[Quantity]
) -> TimeKind | None:
    """What most rows give, step before epoch before job; a throughput gives steps where the batch is known."""
    done = [row for row in rows if row.state == "ok"]
    given = {
        "step": sum(row.step_s is not None for row in done),
        "epoch": sum(row.epoch_s is not None for row in done),
        "job": sum(row.job_s is not None for row in done),
    }
    best = max(kinds, key=lambda kind: (given[kind], -_ORDER.index(kind)), default=None)
    if best is not None:
        return best
    if quantities & {"throughput_per_s", "throughput_per_worker"}:
        return "step" if all(_batch(row) is not None for row in rows) else "sample"
    return None


def _batch(row: Row) -> int | None:
    return row.global_batch if row.global_batch is not None else row.per_worker_batch


# ---------------------------------------------------------------- headings -> columns


def _columns(heading: Sequence[str], time: Times | None) -> list[Column]:
    found: list[Column] = []
    named = [column(index, name) for index, name in enumerate(heading)]
    counted = any(entry is not None and entry.quantity == "workers" for entry in named)
    for index, (name, entry) in enumerate(zip(heading, named, strict=True)):
        if entry is None:
            continue
        if entry.quantity == "time":
            kind: Quantity = "step_s" if time == "step" else "epoch_s" if time == "epoch" else "job_s"
            kind = "step_s" if time is None and entry.unit in ("ms", "us", "µs") else kind
            entry = Column(index, entry.heading, kind, entry.factor, entry.unit)
        if entry.quantity == "gpu" and not counted:  # "GPU: 1, 2, 4": then it counts them
            entry = Column(index, entry.heading, "workers")
            counted = True
        several = entry.quantity in ("series", "gpu", "repeat")
        if not several and (twin := next((c for c in found if c.quantity == entry.quantity), None)):
            raise TableError(
                f"columns {twin.heading!r} and {name!r} both read as {_MEANING[entry.quantity]}",
                hint="rename or remove one of them",
            )
        found.append(entry)
    if not any(c.quantity == "workers" for c in found):
        raise TableError(
            f"no column holds the number of workers; headings: {', '.join(heading)[:200]}",
            hint="name one workers (or gpus, ranks, n)",
        )
    return found


def _understood(heading: Sequence[str], columns: Sequence[Column]) -> tuple[str, ...]:
    by_index = {c.index: c for c in columns}
    said = []
    for index, name in enumerate(heading):
        entry = by_index.get(index)
        if entry is None:
            said.append(f"{name!r}: not used")
            continue
        original = column(index, name)
        bare = original is not None and original.quantity == "time"
        meaning = _MEANING["time" if bare and entry.quantity == "job_s" else entry.quantity]
        unit = entry.unit or ("s where a cell names no unit" if entry.quantity in TIMES else "")
        said.append(f"{name!r}: {meaning}{f', in {unit}' if unit else ''}")
    return tuple(said)


# ---------------------------------------------------------------- cells -> rows


def _positive(value: float) -> float:
    if not math.isfinite(value) or value <= 0.0:
        raise ValueError(f"{value:g} is not a positive number")
    if not _SMALLEST <= value <= _LARGEST:
        raise ValueError(f"{value:g} is not between {_SMALLEST:g} and {_LARGEST:g}")
    return value


def _not_negative(value: float) -> float:
    if not math.isfinite(value) or value < 0.0:
        raise ValueError(f"{value:g} is negative or not finite")
    return _positive(value) if value else value


_SMALLEST, _LARGEST = 1e-12, 1e18  # no time, rate or size is beyond, and powers of what is would overflow
_LONGEST_CELL = 1000
Reader = Callable[[str, float], object]
_SECONDS: Reader = lambda cell, factor: _positive(time_s(cell, factor))  # noqa: E731
_SECONDS_OR_0: Reader = lambda cell, factor: _not_negative(time_s(cell, factor))  # noqa: E731
_COUNT: Reader = lambda cell, factor: count(cell)  # noqa: E731
_NUMBER: Reader = lambda cell, factor: _positive(number(cell))  # noqa: E731
_BYTES: Reader = lambda cell, factor: _positive(bytes_of(cell, factor))  # noqa: E731
_TEXT: Reader = lambda cell, factor: cell  # noqa: E731
_READERS: dict[Quantity, Reader] = {
    "workers": _COUNT,
    "nodes": _COUNT,
    "workers_per_node": _COUNT,
    "step_s": _SECONDS,
    "epoch_s": _SECONDS,
    "job_s": _SECONDS,
    "throughput_per_s": _NUMBER,
    "throughput_per_worker": _NUMBER,
    "batch": _COUNT,
    "per_worker_batch": _COUNT,
    "global_batch": _COUNT,
    "epochs": _NUMBER,
    "steps": _NUMBER,
    "accuracy": lambda cell, factor: share(cell),
    "loss": lambda cell, factor: _not_negative(number(cell)),
    "exchange_s": _SECONDS_OR_0,
    "compute_s": _SECONDS_OR_0,
    "gradient_bytes": _BYTES,
    "parameters": lambda cell, factor: 4.0 * _positive(number(cell, factor)),
    "bandwidth": _BYTES,
    "bytes_per_epoch": _BYTES,
    "samples": _COUNT,
    "validation_samples": _COUNT,
    "lr": _NUMBER,
    "warmup_epochs": lambda cell, factor: _not_negative(number(cell)),
    "plateau_epoch": _NUMBER,
    "gpu": _TEXT,
    "series": _TEXT,
    "backend": _TEXT,
    "repeat": _TEXT,
    "state": _TEXT,
}
_LARGEST_COUNT = 1_000_000


def _row(line: int, cells: Sequence[str], readers: Sequence[tuple[Column, Reader]], width: int) -> Row:
    if len(cells) > width and any(cells[width:]):
        raise TableError(
            f"row {line} has {len(cells)} cells, the heading has {width}",
            hint='quote cells that hold the separator, e.g. "1,234"',
        )
    found: dict[str, object] = {}
    labels: list[tuple[str, str]] = []
    state: State = "ok"
    for entry, reader in readers:
        cell = cells[entry.index] if entry.index < len(cells) else ""
        if unknown(cell):
            continue
        if len(cell) > _LONGEST_CELL:
            raise TableError(
                f"row {line}, column {entry.heading!r}: a cell of {len(cell)} letters",
                hint=f"write at most {_LONGEST_CELL}",
            )
        failed = FAILED.get(cell.lower())
        if failed is not None:
            state = failed
            continue
        if entry.quantity in ("gpu", "series"):
            plain = (
                re.sub(r"(?<![\w.])\d+\s*x\s*(?=[A-Z])", "", cell) if entry.quantity == "gpu" else cell
            )  # "4x A100" is A100
            labels.append((entry.heading, plain))
            continue
        try:
            found[entry.quantity] = reader(cell, entry.factor)
        except (ValueError, OverflowError) as error:
            raise TableError(
                f"row {line}, column {entry.heading!r}: {error}",
                hint=f"write the {_MEANING[entry.quantity]} there, or leave the cell empty",
            ) from None
    return _complete(line, found, tuple(labels), state)


def _complete(line: int, found: dict[str, object], labels: tuple[tuple[str, str], ...], state: State) -> Row:
    """A Row from the cells that say something: batches and nodes brought together."""
    workers = found.pop("workers", None)
    if not isinstance(workers, int):
        raise TableError(f"row {line} does not say how many workers", hint="fill in the workers column")
    if workers > _LARGEST_COUNT:
        raise TableError(f"row {line}: {workers} workers", hint=f"give at most {_LARGEST_COUNT}")
    per_node = found.pop("workers_per_node", None)
    if isinstance(per_node, int) and "nodes" not in found:
        found["nodes"] = math.ceil(workers / per_node)
    nodes = found.get("nodes", 1)
    if isinstance(nodes, int) and nodes > workers:
        raise TableError(
            f"row {line}: {workers} workers on {nodes} nodes", hint="give at least one worker per node"
        )
    if "batch" in found:
        found.setdefault("per_worker_batch", found["batch"])
        del found["batch"]
    each, total = found.get("per_worker_batch"), found.get("global_batch")
    if isinstance(each, int) and total is None:
        found["global_batch"] = each * workers
    elif isinstance(total, int) and each is None:
        found["per_worker_batch"] = max(1, round(total / workers))
    elif (
        isinstance(each, int)
        and isinstance(total, int)
        and abs(each * workers - total) > max(workers, 0.01 * total)
    ):
        raise TableError(
            f"row {line}: {workers} workers with {each} each are {each * workers}, not a global batch of {total}",
            hint="correct one of the two batch columns",
        )
    rate = found.pop("throughput_per_worker", None)
    if isinstance(rate, float):
        found.setdefault("throughput_per_s", rate * workers)
    parameters = found.pop("parameters", None)
    if parameters is not None:
        found.setdefault("gradient_bytes", parameters)
    found.pop("repeat", None)
    found.pop("state", None)
    return Row(line, workers, state=state, series=labels, **found)  # type: ignore[arg-type]
