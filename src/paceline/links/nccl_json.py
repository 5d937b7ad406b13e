"""The JSON file of nccl-tests (`all_reduce_perf -J FILE`, since 2.17.7) -> an NcclTest.

    {"version": 3, "args": ["./all_reduce_perf", …],
     "config": {"nthreads": 1, "ngpus": 1, "devices": [{"rank": 0, "hostname": "a", …}, …]},
     "results": [{"size": 1048576, "out_of_place": {"time": 105.9, "alg_bw": 9.9, "bus_bw": 17.3, "nwrong": 0.0},
                  "in_place": {…}}, …]}

Of every process only its first device is listed: there are nthreads · ngpus workers for each. Numbers that are not
finite are written as text.
"""

from __future__ import annotations

import re

from paceline.core.errors import UsageError
from paceline.core.json_text import json_of
from paceline.links.nccl_text import NcclCell, NcclTest

__all__ = ["looks_like_json", "nccl_test_of_json"]

_NAME = re.compile(r"\b([a-z_]+)_perf\b")
_LAST_DIGIT = 5e-7  # six decimals are written


def looks_like_json(text: str) -> bool:
    """Whether this is the JSON file rather than what was printed."""
    return text.lstrip().startswith("{")


def nccl_test_of_json(text: str, *, source: str) -> NcclTest:
    """The test that this file holds. A UsageError where it holds none, or was cut off."""
    try:
        data = json_of(text)
        config = data.get("config") or {}
        devices = config.get("devices") or data.get("devices") or []
        return NcclTest(
            named=frozenset(_NAME.findall(str((data.get("args") or [""])[0]))),
            hosts=tuple((int(one.get("rank", i)), str(one["hostname"])) for i, one in enumerate(devices)),
            cells=tuple(
                cell
                for row in data.get("results") or []
                for column in ("out_of_place", "in_place")
                if (cell := _cell(int(row["size"]), row.get(column))) is not None
            ),
            per_process=max(1, int(config.get("nthreads") or 1) * int(config.get("ngpus") or 1)),
        )
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        IndexError,
        OverflowError,
        RecursionError,
    ) as problem:
        raise UsageError(
            f"{source} is not a whole JSON file of nccl-tests: {type(problem).__name__}: {problem}",
            hint="give the file that all_reduce_perf -J FILE wrote to its end, or what it printed",
        ) from None


def _cell(size_bytes: int, column: object) -> NcclCell | None:
    if not isinstance(column, dict):
        return None
    time = column.get("time", column.get("cpu_time"))
    return NcclCell(
        size_bytes=size_bytes,
        seconds=float(str(time)) * 1e-6,
        algorithm=float(column["alg_bw"]),
        bus=float(column["bus_bw"]),
        algorithm_error=_LAST_DIGIT,
        bus_error=_LAST_DIGIT,
        wrong=float(column.get("nwrong") or 0) > 0,
    )
