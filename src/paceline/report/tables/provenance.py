"""How the numbers were measured, as the one sentence that a proposal or a paper needs; only what is known is said."""

from __future__ import annotations

from collections.abc import Mapping

from paceline.records import Analysis
from paceline.report.tables.cells import listed

__all__ = ["measured_how"]


def measured_how(analysis: Analysis) -> str | None:
    """Command, devices, hosts, versions, runs and day; None where the source says nothing of them."""
    source = analysis.source
    seen = source.get("workers")
    workers: Mapping[str, object] = seen if isinstance(seen, Mapping) else {}
    parts = [
        _part("on", workers.get("device_name")),
        _part("host", workers.get("host") or source.get("host")),
        _part("torch", workers.get("torch")),
        _part("backend", workers.get("backend")),
        _part("threads per worker:", source.get("threads_per_worker")),
        _part("runs:", source.get("trials")),
        _part("begun", str(source["started"])[:10] if source.get("started") else None),
    ]
    known = [part for part in parts if part]
    if not known:
        return None
    return f"Measured with {source.get('command') or 'a training script'}: {', '.join(known)}."


def _part(word: str, value: object) -> str | None:
    text = listed(value)
    return f"{word} {text}" if text else None
