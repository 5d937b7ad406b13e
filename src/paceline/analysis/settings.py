"""Which settings a question is about: those asked for, the counts asked for at every batch, what was held out."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np

from paceline.analysis.question import Ask, Cluster
from paceline.predict.observations import Observed, strong_batch
from paceline.records import Setting

__all__ = ["placed", "wanted_settings"]


def wanted_settings(
    everything: Observed, observed: Observed, cluster: Cluster, ask: Ask, *, alone: bool
) -> list[Setting]:
    """What to project for one series; `observed` is the part of `everything` that the fit sees."""
    varied = everything.profiles[0].point.varied
    if ask.at:
        asked = [setting for setting, series in ask.at if alone or not series or set(series) <= set(varied)]
        return list(dict.fromkeys(each for setting in asked for each in _with_batches(setting, observed)))
    counts = ask.project_to
    largest = int(observed.workers.max())
    if counts is None:
        counts = (2 * largest, 4 * largest) if ask.fit_up_to is None else ()
    found = [
        Setting(p.point.workers, p.point.nodes, p.point.per_worker_batch)
        for p in everything.profiles
        if ask.fit_up_to is not None and p.point.workers > ask.fit_up_to
    ]
    for count in counts:
        found += _with_batches(Setting(count, _nodes(count, observed, cluster), None), observed)
    return list(dict.fromkeys(found))


def placed(setting: Setting, workers_per_node: int | None) -> Setting:
    """The same workers, so many on each node; as they were where no number is given."""
    if workers_per_node is None:
        return setting
    return Setting(setting.workers, ceil(setting.workers / workers_per_node), setting.per_worker_batch)


def _with_batches(setting: Setting, observed: Observed) -> list[Setting]:
    """A setting that does not say its batch: at the same global batch where all are, else at the batches measured."""
    if setting.per_worker_batch is not None or not observed.batch_known:
        return [setting]
    if (whole := strong_batch(observed)) is not None:
        return [replace(setting, per_worker_batch=max(1, round(whole / setting.workers)))]
    return [replace(setting, per_worker_batch=batch) for batch in _batches_of_largest(observed)]


def _batches_of_largest(observed: Observed) -> list[int]:
    """The batches that the largest count was measured at, of those the ones measured at the most counts."""
    at_top = np.unique(observed.batch[observed.workers == observed.workers.max()])
    counts = [len(np.unique(observed.workers[observed.batch == batch])) for batch in at_top]
    return [int(b) for b, many in zip(at_top, counts, strict=True) if many == max(counts)]


def _nodes(workers: int, observed: Observed, cluster: Cluster) -> int:
    """Nodes for a count: as declared, else as densely packed as was measured across nodes, else one worker for
    every device that a node was seen to have, else one node.

    Where only links between nodes are known and no two workers shared a node, every worker has a node of its own.
    """
    per_node = cluster.workers_per_node
    apart = (
        cluster.between is not None and cluster.inside is None and np.all(observed.workers == observed.nodes)
    )
    if per_node is None and (apart or np.any(observed.nodes > 1)):
        per_node = int(np.ceil(observed.workers / observed.nodes).max())
    per_node = cluster.devices_per_node if per_node is None else per_node
    return 1 if per_node is None else ceil(workers / per_node)
