"""What the agent of each worker wrote, as records. A file missing or cut short gives less, not an error."""

from __future__ import annotations

import contextlib
import math
import os
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.core.json_text import json_of
from paceline.records import (
    Communication,
    GradientNorm,
    Mark,
    MemoryUse,
    Pending,
    Sample,
    ShapeCount,
    Standing,
    StandingGroup,
    TensorPeak,
    WorkerRecord,
)
from paceline.store.json_lines import json_lines, unreadable_lines
from paceline.store.step_graphs import exchanges_of, graphs

__all__ = [
    "Ending",
    "Failure",
    "Heartbeat",
    "Written",
    "ended",
    "failures",
    "heartbeats",
    "look_again",
    "outputs",
    "stacks",
    "standings",
    "text_tail",
    "unread",
    "written",
]

_HEARTBEAT = struct.Struct("<QdQQ")
_TAIL_BYTES = 4000
_MEMORY_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """How far one worker is, while it runs."""

    rank: int
    steps: int
    pid: int
    phase: int  # 0 starting, 1 stepping, 2 finished


@dataclass(frozen=True, slots=True)
class Ending:
    """How one worker's script ended, as its agent saw it: enough, returned, exception."""

    rank: int
    reason: str
    steps: int


@dataclass(frozen=True, slots=True)
class Failure:
    """What one worker raised."""

    rank: int
    type: str
    message: str
    traceback: str
    step: int | None
    oom: bool


@dataclass(frozen=True, slots=True)
class Written:
    """What the workers of a trial recorded, and how the scripts of those ended that came to their end."""

    records: tuple[WorkerRecord, ...]
    endings: tuple[Ending, ...]


def written(trial: Path) -> Written:
    """Every worker's samples and manifest, by rank. A worker whose measuring stopped left a manifest only."""
    records, endings = [], []
    named = {rank for rank, _ in _ranked(trial, "worker-", ".jsonl") + _ranked(trial, "manifest-", ".json")}
    for rank in sorted(named):
        path = trial / f"worker-{rank}.jsonl"
        lines = json_lines(path) if path.exists() else []
        header = next((line for line in lines if line.get("record") == "header"), {})
        shapes = graphs(lines)
        alone = header.get("world") == 1
        samples = [_sample(line, shapes, alone=alone) for line in lines if line.get("record") == "step"]
        manifest = _json_object(trial / f"manifest-{rank}.json")
        world = header.get("world", manifest.get("world", 1))
        steady = tuple(sample for sample in samples if sample is not None)
        consumed = {sample.k: sample.samples for sample in steady}
        records.append(
            WorkerRecord(
                rank=rank,
                world=world if isinstance(world, int) else 1,
                samples=steady,
                manifest=manifest,
                marks=tuple(mark for line in lines if (mark := _mark(line)) is not None),
                gradients=tuple(norm for line in lines if (norm := _gradient(line, consumed)) is not None),
                memory=_memory(lines),
            )
        )
        for line in lines:
            if line.get("record") == "end":
                endings.append(Ending(rank, str(line.get("reason")), _whole(line.get("steps")) or 0))
    return Written(tuple(records), tuple(endings))


def unread(trial: Path, *, workers: int) -> tuple[str, ...]:
    """What a trial should have left and is not there, or cannot be read: one sentence each."""
    found = []
    for rank in range(workers):
        path = trial / f"worker-{rank}.jsonl"
        stopped = bool(_json_object(trial / f"manifest-{rank}.json").get("problems"))
        if not path.exists() and not stopped:  # a worker whose measuring stopped says so in its manifest
            found.append(f"{path.name} is missing")
        if count := unreadable_lines(path):
            found.append(f"{count} line{'' if count == 1 else 's'} of {path.name} cannot be read")
    return tuple(found)


def ended(trial: Path) -> int:
    """How many workers have come to their end: only then the agent writes its file, all at once."""
    return len(_ranked(trial, "worker-", ".jsonl"))


def failures(trial: Path) -> tuple[Failure, ...]:
    """What workers raised, by rank."""
    found = []
    for rank, path in _ranked(trial, "exit-", ".json"):
        data = _json_object(path)
        if data:
            text = {key: str(data.get(key) or "") for key in ("type", "message", "traceback")}
            found.append(
                Failure(rank=rank, step=_whole(data.get("step")), oom=data.get("oom") is True, **text)
            )
    return tuple(found)


def heartbeats(trial: Path) -> tuple[Heartbeat, ...]:
    """How far each worker is, by rank."""
    beats = []
    for rank, path in _ranked(trial, "heartbeat-", ""):
        try:
            data = path.read_bytes()
        except OSError:
            continue
        if len(data) >= _HEARTBEAT.size:
            steps, _, pid, phase = _HEARTBEAT.unpack_from(data)
            beats.append(Heartbeat(rank, steps, pid, phase))
    return tuple(beats)


def stacks(trial: Path) -> Mapping[int, str]:
    """The stacks that workers wrote when asked, by rank."""
    return {rank: path.read_text(errors="replace") for rank, path in _ranked(trial, "stacks-", ".txt")}


def standings(trial: Path) -> tuple[Standing, ...]:
    """What each worker that did not move waited in, by rank; none of one that could not write."""
    found = []
    for rank, path in _ranked(trial, "standing-", ".json"):
        told = _json_object(path)
        groups = [_standing_group(group) for group in _list(told.get("groups")) if isinstance(group, Mapping)]
        call = told.get("call")
        call = call if isinstance(call, str) else None
        found.append(Standing(rank, call, _whole(told.get("peer")), tuple(groups)))
    return tuple(found)


def outputs(trial: Path) -> Mapping[int, str]:
    """The end of what each worker printed, by rank."""
    return {rank: text_tail(path) for rank, path in _ranked(trial, "out-", ".log")}


def look_again(trial: Path) -> None:
    """Make a client of NFS forget which names it believes to be in a folder: it does when it changes one itself."""
    with contextlib.suppress(OSError):
        name = trial / f".look-{os.getpid()}"
        name.touch()
        name.unlink()


def text_tail(path: Path, *, most: int = _TAIL_BYTES) -> str:
    """The end of a text file; empty when there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - most))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _ranked(trial: Path, before: str, after: str) -> list[tuple[int, Path]]:
    pattern = re.compile(re.escape(before) + r"(\d+)" + re.escape(after))
    names = [(pattern.fullmatch(path.name), path) for path in trial.iterdir()] if trial.is_dir() else []
    return sorted((int(match[1]), path) for match, path in names if match)


def _json_object(path: Path) -> dict[str, object]:
    try:
        value = json_of(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _standing_group(told: Mapping[str, object]) -> StandingGroup:
    operations = [_pending(one) for one in _list(told.get("pending")) if isinstance(one, Mapping)]
    known = sorted((one for one in operations if one is not None), key=lambda one: one.number)
    ranks = tuple(rank for rank in map(_whole, _list(told.get("ranks"))) if rank is not None)
    return StandingGroup(str(told.get("name")), ranks, tuple(known))


def _pending(told: Mapping[str, object]) -> Pending | None:
    number = _whole(told.get("number"))
    return None if number is None else Pending(str(told.get("op")), number, _elements(told.get("sizes")))


def _elements(sizes: object) -> int | None:
    """All numbers in tensors of these shapes."""
    total = 0
    for shape in _list(sizes):
        count = 1
        for length in _list(shape):
            if not isinstance(length, int):
                return None
            count *= length
        total += count
    return total if isinstance(sizes, list) else None


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _sample(
    line: Mapping[str, object], shapes: Mapping[int, tuple[Communication, ...]], *, alone: bool
) -> Sample | None:
    """One `step` record; None for the first step (nothing began it) and for what is not a measurement."""
    k, end_s, step_s = _whole(line.get("k")), _number(line.get("end_s")), _number(line.get("step_s"))
    if k is None or end_s is None or step_s is None:
        return None
    seen = exchanges_of(line, shapes)
    return Sample(
        k=k,
        end_s=end_s,
        step_s=step_s,
        input_s=_number(line.get("input_s")),
        optimizer_s=_number(line.get("optimizer_s")),
        exchanges=seen.exchanges,
        samples=_whole(line.get("samples")),
        exchanged_bytes=_whole(line.get("alone_bytes"))
        if alone and "alone_bytes" in line
        else seen.size_bytes,
        backwards=_whole(line.get("backwards")) or 0,
        boundary=line.get("boundary") is True,
        own_s=_number(line.get("own_s")) or 0.0,
        loss=_loss(line.get("loss")),
        unseen=seen.unseen,
        forwards=_whole(line.get("forwards")),
        entered=_whole(line.get("entered")),
        tokens=_whole(line.get("tokens")),
    )


def _mark(line: Mapping[str, object]) -> Mark | None:
    """One `mark` record; a value that is not finite is no mark."""
    k, value, end_s = _whole(line.get("k")), _number(line.get("value")), _number(line.get("end_s"))
    if line.get("record") != "mark" or k is None or value is None or end_s is None:
        return None
    return Mark(str(line.get("name")), value, k, end_s)


def _gradient(line: Mapping[str, object], consumed: Mapping[int, int | None]) -> GradientNorm | None:
    """One `gradient` record, with the samples that the worker consumed in that step."""
    k, own, mean = (
        _whole(line.get("k")), _number(line.get("own_square")), _number(line.get("mean_square"))
    )  # fmt: skip
    if line.get("record") != "gradient" or k is None or own is None or mean is None:
        return None
    return GradientNorm(k, own, mean, consumed.get(k))


def _loss(value: object) -> float | None:
    """A loss may be lost: JSON has no word for that, so the agent writes "nan", "inf" or "-inf"."""
    if isinstance(value, int | float) or value in ("nan", "inf", "-inf"):
        return float(value)
    return None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _memory(lines: Sequence[Mapping[str, object]]) -> MemoryUse | None:
    """What the worker's memory held; None where it was not looked at, or is told in a way that we do not know."""
    line = next((line for line in lines if line.get("record") == "memory"), None)
    if line is None or line.get("format") != _MEMORY_FORMAT or line.get("unknown") is not None:
        return None
    try:
        return _use(line)
    except (KeyError, TypeError, ValueError):
        return None


def _use(line: Mapping[str, object]) -> MemoryUse:
    told = line["peaks"]
    if not isinstance(told, Mapping):
        raise TypeError("peaks are no object")
    peaks = {phase: TensorPeak(*_sizes(told[phase], 2)) for phase in ("forward", "backward", "optimizer")}
    part, rest = (None, None) if line.get("parts") is None else _sizes(line["parts"], 2)
    shapes = line["shapes"]
    if not isinstance(shapes, list):
        raise TypeError("shapes are no list")
    rows = [_sizes(row, 4) for row in shapes]
    return MemoryUse(
        parameters_bytes=_size(line["parameters_bytes"]),
        gradients_bytes=_size(line["gradients_bytes"]),
        optimizer_bytes=_size(line["optimizer_bytes"]),
        buffers_bytes=_size(line["buffers_bytes"]),
        activations_bytes=_maybe_size(line["activations_bytes"]),
        buckets_bytes=_maybe_size(line["buckets_bytes"]),
        gathered_bytes=_maybe_size(line["gathered_bytes"]),
        **peaks,
        peak_bytes=_size(line["peak_bytes"]),
        held_bytes=_maybe_size(line["held_bytes"]),
        device_bytes=_maybe_size(line["device_bytes"]),
        shapes=tuple(ShapeCount(row[0], row[1], bool(row[2]), row[3]) for row in rows),
        largest_part_bytes=part,
        no_part_bytes=rest,
    )


def _size(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is no number of bytes")
    return value


def _maybe_size(value: object) -> int | None:
    return None if value is None else _size(value)


def _sizes(value: object, count: int) -> list[int]:
    if not isinstance(value, list) or len(value) != count:
        raise ValueError(f"{value!r} are not {count} numbers")
    return [_size(one) for one in value]
