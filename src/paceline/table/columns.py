"""Which column is which quantity, and what a cell says, in base units.

A heading is read as a name and a unit: `epoch time (s)`, `step_ms`, `img/s`, `GPUs`. Cells may carry their own unit
(`83 ms`, `5:19`, `44.7 MB`, `98.5 %`), which then wins. An empty cell, `-`, `n/a` or `?` is unknown.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from paceline.core.errors import UsageError
from paceline.core.units import duration
from paceline.records import STATES, State

__all__ = [
    "FAILED",
    "TIMES",
    "Column",
    "Quantity",
    "bytes_of",
    "column",
    "count",
    "number",
    "share",
    "time_s",
    "unknown",
]

Quantity = Literal[
    "workers",
    "nodes",
    "workers_per_node",
    "time",
    "step_s",
    "epoch_s",
    "job_s",
    "throughput_per_s",
    "throughput_per_worker",
    "batch",
    "per_worker_batch",
    "global_batch",
    "epochs",
    "steps",
    "accuracy",
    "loss",
    "exchange_s",
    "compute_s",
    "gradient_bytes",
    "parameters",
    "bandwidth",
    "bytes_per_epoch",
    "samples",
    "validation_samples",
    "lr",
    "warmup_epochs",
    "plateau_epoch",
    "gpu",
    "series",
    "backend",
    "repeat",
    "state",
]


@dataclass(frozen=True, slots=True)
class Column:
    """One recognised column: where it stands, its heading, what it means, and the factor to base units."""

    index: int
    heading: str
    quantity: Quantity
    factor: float = 1.0
    unit: str = ""


FAILED: dict[str, State] = {
    **{state: state for state in STATES if state not in ("ok", "damaged")},
    "out of memory": "oom",
    "failed": "crashed",
    "error": "crashed",
}

_UNKNOWN = {"", "-", "--", "–", "—", "n/a", "na", "null", "none", "?", "nan", "…", "..."}
_TIME_UNITS = {"s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6,
               "min": 60.0, "mins": 60.0, "minutes": 60.0, "h": 3600.0, "hr": 3600.0, "hours": 3600.0}  # fmt: skip
_BYTE_UNITS = {"b": 1.0, "byte": 1.0, "bytes": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
               "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30}  # fmt: skip
_COUNTS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "million": 1e6, "millions": 1e6, "billion": 1e9}
_NAMES: tuple[tuple[str, Quantity], ...] = (
    (r"(all_?reduce_|exchanged_|gradient_|allreduce_gradient_)*bytes_per_epoch", "bytes_per_epoch"),
    (r"(gpus?|workers?|devices?|accelerators?)_per_node|ppn|local_size|tasks_per_node", "workers_per_node"),
    (
        r"(n|num|number_of|no_of|nr|total|n_of)?_?(gpus|gpu_count|workers?|ranks?|devices?|"
        r"accelerators?|processes|procs|np|replicas|gcds?)",
        "workers",
    ),
    (r"n|p|world_?size|hvd_size|gpu_n|n_?gpu|worker_count", "workers"),
    (r"(n|num|number_of|no_of)?_?(nodes?|hosts?|machines?|servers?)", "nodes"),
    (
        r"(step|iteration|iter)_?(time|duration|latency)?|batch_(time|duration)|(time|"
        r"seconds)_per_(step|iteration|iter|batch)|avg_step|mean_step",
        "step_s",
    ),
    (r"epoch_?(time|duration)?(_no_dataloading)?|(time|seconds)_per_epoch", "epoch_s"),
    (
        r"(job|total|training|train|wall|run|end_to_end|elapsed|turnaround|wallclock|"
        r"wall_clock)_?(time|duration|clock|clock_time)|makespan|elapsed|runtime|job|wall|total|"
        r"time_to_solution",
        "job_s",
    ),
    (r"time|seconds|secs|duration|t", "time"),
    (
        r"(throughput|speed|rate)_?per_(gpu|worker|device)|(images|img|samples|"
        r"tokens)_per_s_per_(gpu|worker)",
        "throughput_per_worker",
    ),
    (
        r"(training_)?throughput(_per_s)?|(images|image|imgs|img|samples|sample|tokens|sequences|"
        r"seqs|examples|items|records|rows|words|graphs|utterances|frames)_?per_?(s|sec|second)|"
        r"imgs|ips|samples_s|fps",
        "throughput_per_s",
    ),
    (
        r"(per_?(gpu|worker|device|rank|replica|process)_?batch(_?size)?|batch(_?size)?_per_(gpu|"
        r"worker|device|rank|replica)|(local|micro|mini)_?batch(_?size)?|bs_per_gpu|b)",
        "per_worker_batch",
    ),
    (r"(global|total|effective)_?batch(_?size)?|gbs", "global_batch"),
    (r"batch(_?size)?|bs|minibatch", "batch"),
    (r"(n|num|number_of)?_?epochs|epochs_run", "epochs"),
    (r"(n|num|number_of)?_?(steps|iterations|updates)|steps_per_(epoch|job)", "steps"),
    (
        r"(final_|best_|top_?1_|top_?5_)?(val|valid|validation|test|eval|"
        r"train)?_?acc(uracy)?(_?top_?1)?|top_?1",
        "accuracy",
    ),
    (r"(final_|val_|validation_|test_|train_)?loss|mse", "loss"),
    (
        r"(exchange|sync|synchronisation|synchronization|comm|communication|all_?reduce|network|"
        r"exposed|exposed_comm)_?(time|duration)?",
        "exchange_s",
    ),
    (r"comput(e|ation)_?(time|duration)?", "compute_s"),
    (
        r"gradients?(_?(bytes|size))?|grad_?bytes|model_?bytes|message_?bytes|"
        r"exchanged_bytes_per_step|bytes",
        "gradient_bytes",
    ),
    (r"(n|num|number_of|model)?_?param(s|eters|eter_count)?(_millions)?", "parameters"),
    (r"(bus|algorithm|alg|link|network)?_?(bandwidth|bw|busbw|algbw)", "bandwidth"),
    (
        r"samples|dataset_?size|data_?set_?size|(n|num)_?samples|train(ing)?_?samples|"
        r"training_set(_size)?|images|examples",
        "samples",
    ),
    (r"(val|validation|test)_?(samples|images|set_size|size)", "validation_samples"),
    (r"lr|learning_?rate|base_lr", "lr"),
    (r"warm_?up(_epochs)?", "warmup_epochs"),
    (
        r"plateau(_epoch)?|epochs_to_(plateau|stable|target|converge)|stable_epoch|"
        r"epochs_to_stable_accuracy",
        "plateau_epoch",
    ),
    (r"gpu|gpu_(model|type|name)|device|device_(name|type)|accelerator|hardware|card", "gpu"),
    (
        r"model|network|workload|arch(itecture)?|benchmark|series|precision|dtype|experiment|"
        r"dataset|variant|config",
        "series",
    ),
    (r"backend|transport", "backend"),
    (r"repeat|trial|seed|rep|run|run_id|launch", "repeat"),
    (r"state|status|result", "state"),
)
_PATTERNS = tuple((re.compile(rf"(?:{pattern})\Z"), quantity) for pattern, quantity in _NAMES)
_LONGEST_HEADING = 200  # no heading is longer, and patterns take the square of its length
TIMES = {"time", "step_s", "epoch_s", "job_s", "exchange_s", "compute_s"}


def column(index: int, heading: str) -> Column | None:
    """The quantity that a heading names, with its unit; None where the heading says nothing we know."""
    if len(heading) > _LONGEST_HEADING:
        return None
    name, unit = _split_heading(heading)
    quantity = _named(name)
    if quantity is None and unit:
        whole, rest = f"{name}_{unit}".strip("_"), unit
        quantity = _named(whole) or _named(rest)
        if quantity is not None:
            unit = ""
    if quantity is None:
        return None
    if quantity == "series" and unit:
        unit = ""
    factor = _factor(quantity, unit)
    if factor is None:
        return None
    if quantity == "parameters" and "millions" in name:
        factor = 1e6
    return Column(index, heading, quantity, factor, unit)


def unknown(cell: str) -> bool:
    """Whether a cell says that nothing is known."""
    return cell.strip().lower() in _UNKNOWN


def time_s(cell: str, factor: float) -> float:
    """Seconds: `12.5` in the column's unit, or `83 ms`, `5:19`, `01:38:30`, `2.5 h`."""
    plain = _plain(cell)
    if plain is not None:
        return plain * factor
    try:
        return duration(cell.strip().replace(",", ""))
    except UsageError:
        raise ValueError(f"{cell.strip()!r} is not a time: write 12.5, 83 ms, 5:19 or 01:38:30") from None


def number(cell: str, factor: float = 1.0) -> float:
    """A number, with thousands separators, or with k, M, B behind it; `1500 img/s` reads as 1500."""
    plain = _plain(cell)
    if plain is not None:
        return plain * factor
    match = re.fullmatch(
        r"([-+0-9.,eE]+)\s*(k|m|b|million|billion)?\s*([a-z]+\s*/\s*(?:s|sec|second))?", cell.strip(), re.I
    )
    value = _plain(match[1]) if match else None
    if match is None or value is None:
        raise ValueError(f"{cell.strip()!r} is not a number")
    return value * _COUNTS[(match[2] or "").lower()] * (factor if not match[2] else 1.0)


def count(cell: str) -> int:
    """A whole number of things, at least 1."""
    bare = re.sub(r"(?i)(?<=\d)\s*[x×]?\s*(gpus?|workers?|nodes?|ranks?)?\s*\Z", "", cell.strip())
    value = number(bare)
    if value != math.floor(value) or not 1 <= value <= 1e12:
        raise ValueError(f"{cell.strip()!r} is not a whole number of at least 1")
    return int(value)


def share(cell: str) -> float:
    """A ratio from `0.985`, `98.5 %` or `98.5`."""
    text = cell.strip()
    value = number(text.rstrip("% "))
    if text.endswith("%") or 1.0 < value <= 100.0:
        value /= 100.0
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{text!r} is not a share between 0 and 1 (or 0 and 100%)")
    return value


def bytes_of(cell: str, factor: float) -> float:
    """Bytes: `44700000` in the column's unit, or `44.7 MB`, `2.5 GB/s`."""
    match = re.fullmatch(r"([-+0-9.,eE]+)\s*([kmgt]?i?b)(?:/s|ps)?", cell.strip(), re.I)
    if match and (value := _plain(match[1])) is not None:
        return value * _BYTE_UNITS[match[2].lower()]
    return number(cell, factor)


def _plain(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        if not re.fullmatch(r"\s*[-+]?\d{1,3}(,\d{3})+(\.\d+)?\s*", cell):
            return None
        value = float(cell.replace(",", ""))
    if "_" in cell:
        return None
    return value


def _split_heading(heading: str) -> tuple[str, str]:
    """The name in snake_case and the unit: `Epoch time (s)` -> epoch_time, s; `img/s` -> img, per_s."""
    text = heading.strip().strip("*_` ").lower().replace("#", "number of ")
    text = text.replace("speed-up", "speedup")
    unit = ""
    bracket = re.search(r"[\(\[]\s*([^)\]]*?)\s*[\)\]]\s*$", text)
    if bracket:
        unit, text = bracket[1], text[: bracket.start()]
    unit = (
        unit.replace("samples/s", "").replace("images/s", "") if "/s" in unit and "b/s" not in unit else unit
    )
    name = re.sub(r"[\s\-./]+", lambda found: "_per_" if "/" in found[0] else "_", text.strip()).strip("_")
    name = re.sub(r"_+", "_", name)
    rate = re.fullmatch(r"(.*)_([kmgt]i?b)_per_s(ec)?", name)
    if rate and not unit:
        return rate[1], rate[2]
    if not unit:
        head, _, last = name.rpartition("_")
        if head and (last in _TIME_UNITS or last in _BYTE_UNITS) and not head.endswith("per"):
            name, unit = head, last
    return name, unit.strip()


def _named(name: str) -> Quantity | None:
    for pattern, quantity in _PATTERNS:
        if pattern.match(name):
            return quantity
    return None


def _factor(quantity: Quantity, unit: str) -> float | None:
    """What a number in this column is multiplied with; None where the unit does not fit the quantity."""
    unit = unit.lower()
    if quantity in TIMES:
        return _TIME_UNITS.get(unit) if unit and unit not in ("h:mm:ss", "hh:mm:ss", "mm:ss", "m:ss") else 1.0
    if quantity in ("gradient_bytes", "bandwidth"):
        return _BYTE_UNITS.get(unit.removesuffix("/s").removesuffix("ps")) if unit else 1.0
    if quantity == "parameters":
        return _COUNTS.get(unit, 1.0)
    return 1.0
