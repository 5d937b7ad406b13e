"""What the samplers of the nodes wrote into a trial folder, and which nodes were lost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from paceline.records import Telemetry
from paceline.store.json_lines import json_lines

__all__ = ["lost_nodes", "telemetry"]


def telemetry(trial: Path) -> tuple[Telemetry, ...]:
    """Every sample of every node, by node and time. A line cut short is left out."""
    found = []
    for path in sorted(trial.glob("telemetry-*.jsonl")):
        node, cores = 0, 1.0
        for line in json_lines(path):
            if line.get("record") == "header":
                node, cores = _count(line.get("node")) or 0, _number(line.get("cores")) or 1.0
            elif line.get("record") == "worker":
                sample = _sample(line, node, cores)
                found += [sample] if sample is not None else []
    return tuple(found)


def lost_nodes(trial: Path) -> tuple[str, ...]:
    """Why nodes were lost while this trial ran, one sentence each."""
    found = []
    for path in sorted(trial.glob("lost-*.json")):
        found += [str(line["reason"]) for line in json_lines(path) if "reason" in line]
    return tuple(found)


def _sample(line: Mapping[str, object], node: int, cores: float) -> Telemetry | None:
    rank, t_s, cpu_s = (_number(line.get(name)) for name in ("rank", "t_s", "cpu_s"))
    if rank is None or t_s is None or cpu_s is None:
        return None
    throttled = line.get("throttled")
    return Telemetry(
        rank=int(rank),
        node=node,
        t_s=t_s,
        cpu_s=cpu_s,
        rss_bytes=_count(line.get("rss_bytes")) or 0,
        node_cores=cores,
        gpu_ratio=_number(line.get("gpu_ratio")),
        gpu_memory_bytes=_count(line.get("gpu_memory_bytes")),
        gpu_clock_ratio=_number(line.get("gpu_clock_ratio")),
        power_watts=_number(line.get("power_watts")),
        throttled=tuple(map(str, throttled)) if isinstance(throttled, list) else (),
        device=str(line["device"]) if line.get("device") is not None else None,
        periods=_count(line.get("periods")),
        stopped_periods=_count(line.get("stopped_periods")),
    )


def _count(value: object) -> int | None:
    found = _number(value)
    return None if found is None else int(found)


def _number(value: object) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known and math.isfinite(value) else None  # type: ignore[arg-type]
