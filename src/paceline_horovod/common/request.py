"""What a rank asks for, and what rank 0 answers: two records, and their form as one line of JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any

__all__ = ["Request", "Response", "from_line", "to_line"]


@dataclass(frozen=True)
class Request:
    """One collective that one rank is ready for. Grouped calls carry several tensors under one name."""

    name: str
    kind: str  # allreduce, allgather, broadcast, alltoall, reducescatter, barrier, join, add_set, remove_set
    process_set: int = 0
    dtypes: tuple[str, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    device: str = "cpu"
    op: str = ""
    root_rank: int = 0
    prescale: float = 1.0
    postscale: float = 1.0
    splits: tuple[int, ...] | None = None  # alltoall: rows for each rank
    ranks: tuple[int, ...] = ()  # add_set, remove_set: the members


@dataclass(frozen=True)
class Response:
    """What all members of a process set do next; `error` when what they asked for does not fit together."""

    name: str
    process_set: int
    request: Request  # as the first rank asked it: a joined rank learns from it what to contribute zeros to
    error: str = ""
    rows: tuple[tuple[int, ...], ...] = ()  # per member: first dimension of each tensor (allgather)
    splits: tuple[tuple[int, ...], ...] = ()  # per member: rows for each member (alltoall)
    last_joined: int = -1


def to_line(record: object) -> bytes:
    """One record as one line."""
    return json.dumps(_plain(record), separators=(",", ":")).encode() + b"\n"


def from_line(line: bytes) -> Request | Response:
    """The record that a line holds."""
    data = json.loads(line)
    if "request" in data:
        data["request"] = _request(data["request"])
        data["rows"] = _pairs(data["rows"])
        data["splits"] = _pairs(data["splits"])
        return Response(**data)
    return _request(data)


def _plain(record: Any) -> dict[str, Any]:
    plain = {field.name: getattr(record, field.name) for field in fields(record)}
    if "request" in plain:
        plain["request"] = _plain(plain["request"])
    return plain


def _request(data: dict[str, Any]) -> Request:
    data["dtypes"] = tuple(data["dtypes"])
    data["shapes"] = _pairs(data["shapes"])
    data["ranks"] = tuple(data["ranks"])
    data["splits"] = None if data["splits"] is None else tuple(data["splits"])
    return Request(**data)


def _pairs(lists: list[list[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(inner) for inner in lists)
