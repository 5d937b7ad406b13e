"""A table measured anywhere -> its evidence -> the Analysis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from paceline.analysis.pipeline import Evidence, analysed
from paceline.analysis.question import Ask, Cluster, Series, network_of
from paceline.check.table import table_findings
from paceline.links.probed import Probed
from paceline.records import Analysis, Setting
from paceline.table.profiles import data_set_size, profiles_of
from paceline.table.read import Table

__all__ = ["settings_of", "table_analysis"]


def table_analysis(
    table: Table,
    *,
    ask: Ask | None = None,
    cluster: Cluster | None = None,
    source: Mapping[str, object] | None = None,
    probed: Probed | None = None,
) -> Analysis:
    """Everything that a table says, and what follows from it."""
    profiles = profiles_of(table)
    ask = ask or Ask()
    exact = "step_s" in table.quantities or table.time_kind in ("epoch", "job")
    ask = replace(
        ask,
        samples=ask.samples if ask.samples is not None else data_set_size(table),
        absolute=exact,
        plateau_epochs=dict(ask.plateau_epochs) or _plateau_epochs(table),
    )
    kind = table.time_kind or "step"
    evidence = Evidence(
        profiles,
        table_findings(table, profiles),
        kind=kind,
        source={**(source or {}), "understood": list(table.understood), "time_kind": kind},
        probed=probed or Probed(),
    )
    return analysed(evidence, ask=ask, cluster=cluster or Cluster())


def settings_of(table: Table) -> tuple[tuple[Setting, tuple[tuple[str, str], ...]], ...]:
    """The settings that a table of points asks for, each with its series, in the order of the table."""
    found = [(Setting(row.workers, row.nodes, row.per_worker_batch), row.series) for row in table.rows]
    return tuple(dict.fromkeys(found))


def _plateau_epochs(table: Table) -> dict[Series, dict[int, float]]:
    """Epochs to a stable accuracy by global batch, of every network, where the table has that column."""
    found: dict[Series, dict[int, list[float]]] = {}
    for row in table.rows:
        if row.plateau_epoch is not None and row.global_batch is not None:
            own = found.setdefault(network_of(row.series), {})
            own.setdefault(row.global_batch, []).append(row.plateau_epoch)
    return {
        network: {batch: sum(values) / len(values) for batch, values in own.items()}
        for network, own in found.items()
    }
