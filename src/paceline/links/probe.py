"""A probe: which sizes it asks for, and the lines that it wrote -> a Probe.

sizes           from 1 KB to twice the gradient bytes, evenly spaced in their logarithm
across workers  the slowest: a collective ends when its last worker does
bus bandwidth   size / seconds · 2(N−1)/N for an all-reduce, · (N−1)/N for all-gather and reduce-scatter;
                size is that of the whole buffer: what every link carried, whatever N (as nccl-tests defines it)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median

from paceline.core.errors import StudyError
from paceline.core.json_text import json_of
from paceline.core.manifest import core_time, cores_of, number
from paceline.core.stats import estimate
from paceline.records import (
    BesideTime,
    DeviceProbe,
    DeviceRate,
    Estimate,
    JitterProbe,
    Probe,
    ProbeTime,
    TrialResult,
)

__all__ = [
    "BACKENDS",
    "LARGEST_BYTES",
    "OPS",
    "beside_from",
    "exchanged_bytes",
    "probe_from",
    "rounds",
    "sweep_sizes",
]

OPS = ("all_reduce", "all_gather", "reduce_scatter")
BACKENDS = ("gloo", "nccl")
SMALLEST_BYTES = 1024
LARGEST_BYTES = 64_000_000  # where no study says how many bytes a step exchanges
FORMAT = 1
_SIZES = 12

Data = Mapping[str, object]


def sweep_sizes(largest_bytes: int) -> tuple[int, ...]:
    """Twelve sizes from 1 KB to `largest_bytes`, each the same factor above the one before, in whole KB."""
    largest = max(largest_bytes, 4 * SMALLEST_BYTES)
    factor = (largest / SMALLEST_BYTES) ** (1.0 / (_SIZES - 1))
    steps = (SMALLEST_BYTES * factor**i / 1024 for i in range(_SIZES))
    return tuple(sorted({1024 * round(step) for step in steps}))


def exchanged_bytes(results: Sequence[TrialResult]) -> int | None:
    """What a step of several workers exchanges, the most over trials; None where nobody has looked."""
    most = []
    for result in results:
        if result.trial.point.workers > 1:
            seen = [s.exchanged_bytes for w in result.workers for s in w.samples if s.exchanged_bytes]
            most += [int(median(seen))] if seen else []
    return max(most, default=None)


def rounds(op: str, workers: int) -> int:
    """Messages that follow one another in a ring: there and back for an all-reduce, once round for its halves."""
    return (2 if op == "all_reduce" else 1) * (workers - 1)


def probe_from(lines: Iterable[str], *, source: str = "paceline probe") -> Probe:
    """What probe.jsonl says. A last line that was cut off by the end of the probe is passed over."""
    records = list(_records(lines))
    header = next((record for record in records if record.get("record") == "header"), None)
    if header is None or header.get("format") != FORMAT:
        seen = "no header" if header is None else f"format {header.get('format')!r}"
        raise StudyError(f"{source}: a probe with {seen}", hint="probe again: paceline probe")
    try:
        workers, nodes = int(str(header["workers"])), int(str(header["nodes"]))
        speed = header.get("interface_bytes_per_s")
        places = _places([r for r in records if r.get("record") == "worker"])
        return Probe(
            times=tuple(_time(r, workers, nodes, places) for r in records if r.get("record") == "row"),
            devices=tuple(_device(r) for r in records if r.get("record") == "worker" and r.get("device")),
            notes=(
                *_alone(workers),
                *_crowded(records, workers // nodes),
                *(n for r in records if (n := _note(r)) is not None),
            ),
            source=source,
            interface_bytes_per_s=None if speed is None else float(str(speed)),
            jitter=next(
                (_jitter(r, nodes) for r in records if r.get("record") == "steady" and "seconds" in r), None
            ),
            beside=tuple(beside_from(r, workers, nodes) for r in records if r.get("record") == "beside"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StudyError(
            f"{source}: a probe that cannot be read: {error!r}", hint="probe again: paceline probe"
        ) from None


def _records(lines: Iterable[str]) -> Iterable[dict[str, object]]:
    for line in lines:
        try:
            record = json_of(line)
        except ValueError:
            return
        if isinstance(record, dict):
            yield record


def _time(record: Data, workers: int, nodes: int, places: Sequence[tuple[str, float]]) -> ProbeTime:
    seconds = record["seconds"]
    if not isinstance(seconds, list) or not seconds:
        raise ValueError(f"seconds {seconds!r}")
    return ProbeTime(
        backend=str(record["backend"]),
        op=str(record["op"]),
        workers=workers,
        nodes=nodes,
        size_bytes=int(str(record["bytes"])),
        repeat=int(str(record["repeat"])),
        seconds=max(float(second) for second in seconds),
        cores_s=_cores_s(record.get("cpu_s"), places),
    )


def beside_from(record: Data, workers: int, nodes: int) -> BesideTime:
    """A line of one exchange beside waiting and beside computing."""
    means = []
    for name in ("waiting", "computing"):
        seconds = record[name]
        if not isinstance(seconds, list) or not seconds:
            raise ValueError(f"{name} {seconds!r}")
        means.append(fmean(float(second) for second in seconds))
    size, repeat = (int(str(record[name])) for name in ("bytes", "repeat"))
    return BesideTime(str(record["backend"]), workers, nodes, size, repeat, *means)


def _places(workers: Sequence[Data]) -> list[tuple[str, float]]:
    """The node of every worker, by rank, and the cores that it may use there; nothing where one is unknown."""
    cores = {
        number(w, "rank"): (str(w.get("node")), time) for w in workers if (time := core_time(w)) is not None
    }
    return [cores[rank] for rank in range(len(workers))] if set(cores) == set(range(len(workers))) else []


def _cores_s(cpu_s: object, places: Sequence[tuple[str, float]]) -> float | None:
    """How long all cores of a node would be busy for what its workers computed to exchange, on the busiest node."""
    if not isinstance(cpu_s, list) or not cpu_s or len(cpu_s) != len(places):
        return None
    nodes: dict[str, float] = defaultdict(float)
    for spent, (node, cores) in zip(cpu_s, places, strict=True):
        nodes[node] += float(spent) / cores
    return max(nodes.values())


def _jitter(record: Data, nodes: int) -> JitterProbe:
    series = record["seconds"]
    if not isinstance(series, list) or not all(isinstance(one, list) for one in series):
        raise ValueError(f"pieces {type(series).__name__}")
    burst = record.get("pieces")
    if burst is not None and (not isinstance(burst, int) or burst < 1):
        raise ValueError(f"bursts of {burst!r} pieces")
    return JitterProbe(len(series), nodes, tuple(tuple(float(s) for s in one) for one in series), burst)


def _device(record: Data) -> DeviceProbe:
    products = record.get("matmul") or {}
    assert isinstance(products, dict)
    rates = [DeviceRate(name, _rate(best["flop_per_s"])) for name, best in products.items() if best]
    if copied := record.get("copy_bytes_per_s"):
        rates.append(DeviceRate("copy", _rate(copied)))
    return DeviceProbe(
        worker=int(str(record["rank"])),
        device=str(record["device"]),
        name=str(record["device_name"]),
        rates=tuple(rates),
    )


def _rate(values: object) -> Estimate:
    found = estimate([float(value) for value in values]) if isinstance(values, list) else None
    if found is None:
        raise ValueError(f"rates {values!r}")
    return found


def _alone(workers: int) -> tuple[str, ...]:
    return ("one worker has no link to probe: its device was measured",) if workers == 1 else ()


def _crowded(records: Sequence[Data], per_node: int) -> tuple[str, ...]:
    """Whether workers took turns on too few cores, where even waiting for a message takes one."""
    cores = [count for r in records if (count := cores_of(r)) is not None]
    if not cores or per_node <= min(cores):
        return ()
    return (
        f"{per_node} workers on {min(cores)} cores of a node: their latency is that of the cores, not of the links",
    )


def _note(record: Data) -> str | None:
    match record.get("record"):
        case "steady" if "reason" in record:
            return f"how steadily workers compute was not probed: {record['reason']}"
        case "absent":
            return f"{record['backend']} was not probed: {record['reason']}"
        case "missing":
            return f"{record['op']} over {record['backend']} was not probed: {record['reason']}"
        case "cut":
            short = "they do" if record.get("why") == "memory" else "five repetitions of them do"
            room = "the memory of a worker" if record.get("why") == "memory" else "--seconds"
            return (
                f"{record['backend']}: sizes from {int(str(record['bytes'])) / 1e6:.3g} MB on were left out, "
                f"for {short} not fit into {room}"
            )
        case _:
            return None
