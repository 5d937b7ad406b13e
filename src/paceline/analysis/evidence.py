"""Which Links an answer rests on: probed before declared before believed, and said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from paceline.analysis.question import Cluster
from paceline.core.units import duration_text, rate_text
from paceline.links.belief import LinkBelief, measured
from paceline.links.fit import belief_of
from paceline.links.probed import Probed
from paceline.predict.after_wait import after_wait
from paceline.predict.jitter import jitter_of
from paceline.predict.observations import Observed
from paceline.predict.prior import alone_s
from paceline.records import Link, LinkClass, Projection

__all__ = [
    "determined",
    "link_source",
    "links_text",
    "with_contention",
    "with_links",
    "with_probed",
    "with_probes",
    "with_steadiness",
]


def with_links(cluster: Cluster, links: Mapping[str, Link]) -> Cluster:
    """The Cluster with Links that somebody measured: `inside`, `between`."""
    inside = measured(links["inside"]) if "inside" in links else cluster.inside
    between = measured(links["between"]) if "between" in links else cluster.between
    return replace(cluster, inside=inside, between=between)


def with_probes(cluster: Cluster, found: Probed) -> Cluster:
    """The Cluster with everything that was probed."""
    if not found.links and not found.jitter:
        return cluster
    return replace(cluster, probes=found.links, jitter=found.jitter)


def with_probed(cluster: Cluster, backend: str | None) -> Cluster:
    """The Cluster with the Links that were probed over this backend; over the only one probed where it is unknown."""
    if backend is None and len({probe.backend for probe in cluster.probes}) > 1:
        return cluster
    found = {probe.link: belief_of(probe) for probe in cluster.probes if backend in (None, probe.backend)}
    return replace(
        cluster,
        inside=found.get("inside", cluster.inside),
        between=found.get("between", cluster.between),
    )


def with_steadiness(observed: Observed, cluster: Cluster) -> Observed:
    """The measurements, and what a probe saw of workers that computed at the same time, if they do not tell it; and of
    workers that had waited. NCCL keeps a device busy while it waits: there no pause changes anything."""
    if not observed.absolute:
        return observed
    step_s = alone_s(observed)
    probed = jitter_of(cluster.jitter, step_s)
    waited = None
    if observed.backend == "gloo":
        waited = after_wait(cluster.jitter, step_s, jitter=probed, steps_ratio=observed.steps_ratio)
    return replace(observed, jitter=observed.jitter or probed, after_wait=waited)


def with_contention(observed: Observed, between: LinkBelief | None) -> Observed:
    """The measurements, and what a probe saw exchange and computing do to each other: cores, and waits for them."""
    overlap, first = observed.overlap, observed.profiles[0]
    if between is None or overlap is None or first.cpu_ratio is None:
        return observed
    busy_ratio = first.cpu_ratio.value * first.point.nodes / first.point.workers
    return replace(
        observed,
        overlap=replace(
            overlap,
            busy_ratio=busy_ratio,
            carry_s=(between.cores_s_per_byte or 0.0) * (observed.gradient_bytes or 0.0),
            busy_hop_s=(between.busy_hop_s or 0.0) * min(1.0, busy_ratio),
        ),
    )


def determined(cluster: Cluster) -> set[str]:
    """Parameters of a Fit that are known from a probe, whatever the step times say of them."""
    names = {"inside_node": cluster.inside, "between_nodes": cluster.between}
    return {
        f"{what}_{name}_s"
        for name, link in names.items()
        if link is not None and link.probed
        for what in ("exchange", "latency")
    }


def links_text(cluster: Cluster) -> str:
    """Every Link that is known: where, what it carries, and from where that is known."""
    parts = [
        f"{where}: {rate_text(link.bytes_per_s)}, {duration_text(link.latency_s)} per hop ({link.source})"
        for link, where in ((cluster.inside, "inside a node"), (cluster.between, "between nodes"))
        if link is not None
    ]
    return f"; links {', '.join(parts)}" if parts else ""


def link_source(cluster: Cluster, projection: Projection) -> str:
    """From where the Link that a projection's exchange depends on is known."""
    if projection.workers < 2:
        return ""
    where: LinkClass = "between" if projection.nodes > 1 else "inside"
    link: LinkBelief | None = cluster.between if where == "between" else cluster.inside
    return (
        ""
        if link is None
        else f"; links {'between nodes' if where == 'between' else 'inside a node'}: {link.source}"
    )
