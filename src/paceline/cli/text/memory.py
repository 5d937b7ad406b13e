"""What memory other settings would take, as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from tabulate import tabulate

from paceline.core.units import bytes_text
from paceline.records import Analysis, Estimate, LargestBatch, MemoryForecast

__all__ = ["largest_batch_lines", "memory_text"]

_FITS = {"yes": "yes", "no": "no", "unsure": "perhaps", None: "–"}


def memory_text(analysis: Analysis, *, most: int) -> list[str]:
    """Predicted settings, a line each; nothing where none is predicted."""
    shown = analysis.memory[:most]
    if not shown:
        return []
    limits = {forecast.limit_bytes for forecast in shown}
    size = limits.pop() if len(limits) == 1 else None
    question = f"fits in {bytes_text(size)}?" if size is not None else "fits?"
    rows = [
        [
            *(value for _, value in forecast.varied),
            str(forecast.workers),
            str(forecast.per_worker_batch),
            "–" if forecast.workers == 1 else forecast.strategy,
            _size(forecast.held_bytes or forecast.tensors_bytes),
            _FITS[forecast.fits],
        ]
        for forecast in shown
    ]
    heads = [*(flag.lstrip("-") for flag, _ in shown[0].varied), "workers", "batch per worker", "strategy"]
    heads += ["memory of a worker", question]
    if all(forecast.limit_bytes is None for forecast in shown):
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    table = tabulate(rows, headers=heads, tablefmt="simple", disable_numparse=True)
    left = len(analysis.memory) - len(shown)
    more = [f"… and {left} more (--json shows all)"] if left else []
    return [f"Memory, predicted from what was measured ({_base(shown)}):", *table.splitlines(), *more]


def largest_batch_lines(analysis: Analysis) -> list[str]:
    """What the search of the largest batch found, a line per setting."""
    return [
        f"{_setting(found)}: {_largest(found)} ({found.runs} run{'' if found.runs == 1 else 's'})"
        for found in analysis.largest_batches
    ]


def _setting(found: LargestBatch) -> str:
    workers = f"{found.workers} worker{'' if found.workers == 1 else 's'}"
    return ", ".join([workers, *(f"{flag.lstrip('-')} {value}" for flag, value in found.varied)])


def _largest(found: LargestBatch) -> str:
    if found.batch is None:
        return f"no batch fits, {found.too_large} per worker ended so: {found.why}"
    beyond = (
        f"{found.too_large} does not run ({found.why})" if found.too_large else "nothing larger was tried"
    )
    if found.too_large and found.too_large > found.batch + 1:
        beyond = f"{found.too_large} does not run, between them nobody has looked"
    return f"the largest batch per worker that runs is {found.batch}, {beyond}; use {found.safe_batch} to be safe"


def _base(shown: Sequence[MemoryForecast]) -> str:
    points = list(dict.fromkeys(point for forecast in shown for point in forecast.measured))
    return ", ".join(points[:3]) + (f" and {len(points) - 3} more" if len(points) > 3 else "")


def _size(size: Estimate) -> str:
    return f"{bytes_text(size.value)} ({bytes_text(size.low)} to {bytes_text(size.high)})"
