"""The `memory` line of a worker's file, as a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paceline.records import MemoryUse, ShapeCount, TensorPeak

__all__ = ["memory_of"]

FORMAT = 1


def memory_of(lines: Sequence[Mapping[str, object]]) -> MemoryUse | None:
    """What the worker's memory held; None where it was not looked at, or is told in a way that we do not know."""
    line = next((line for line in lines if line.get("record") == "memory"), None)
    if line is None or line.get("format") != FORMAT or line.get("unknown") is not None:
        return None
    try:
        return _use(line)
    except (KeyError, TypeError, ValueError):
        return None


def _use(line: Mapping[str, object]) -> MemoryUse:
    told = line["peaks"]
    if not isinstance(told, Mapping):
        raise TypeError("peaks are no object")
    peaks = {phase: TensorPeak(*_wholes(told[phase], 2)) for phase in ("forward", "backward", "optimizer")}
    part, rest = (None, None) if line.get("parts") is None else _wholes(line["parts"], 2)
    shapes = line["shapes"]
    if not isinstance(shapes, list):
        raise TypeError("shapes are no list")
    rows = [_wholes(row, 4) for row in shapes]
    return MemoryUse(
        parameters_bytes=_whole(line["parameters_bytes"]),
        gradients_bytes=_whole(line["gradients_bytes"]),
        optimizer_bytes=_whole(line["optimizer_bytes"]),
        buffers_bytes=_whole(line["buffers_bytes"]),
        activations_bytes=_maybe(line["activations_bytes"]),
        buckets_bytes=_maybe(line["buckets_bytes"]),
        gathered_bytes=_maybe(line["gathered_bytes"]),
        **peaks,
        peak_bytes=_whole(line["peak_bytes"]),
        held_bytes=_maybe(line["held_bytes"]),
        device_bytes=_maybe(line["device_bytes"]),
        shapes=tuple(ShapeCount(row[0], row[1], bool(row[2]), row[3]) for row in rows),
        largest_part_bytes=part,
        no_part_bytes=rest,
    )


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is no number of bytes")
    return value


def _maybe(value: object) -> int | None:
    return None if value is None else _whole(value)


def _wholes(value: object, count: int) -> list[int]:
    if not isinstance(value, list) or len(value) != count:
        raise ValueError(f"{value!r} are not {count} numbers")
    return [_whole(one) for one in value]
