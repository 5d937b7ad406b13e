"""Profiles -> answers, in one call: fit, projections or refusals, convergence, recommendations, findings.

A series (one device, one backend, one set of flags) gets one law. What is asked beyond it is refused, with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from paceline.advise import Prices, recommendations
from paceline.baselines import METHODS, held_out_error
from paceline.convergence import Curve, EpochsLaw, convergence_of, epochs_law
from paceline.fit import Law, fit_law, parameters, unidentified
from paceline.links import LinkBelief, measured
from paceline.observe import Observed, Setting, labels, observe
from paceline.project import draws, projections
from paceline.records import (
    Convergence,
    Finding,
    Fit,
    Link,
    Profile,
    Projection,
    Recommendation,
    Refusal,
    TimeKind,
)
from paceline.refuse import incomparable, refusal, too_wide
from paceline.whatif import changed_law

__all__ = ["Answers", "Ask", "Change", "Cluster", "answers"]


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is declared about the machines: workers per node, and what is believed of each link class."""

    workers_per_node: int | None = None
    inside: LinkBelief | None = None
    between: LinkBelief | None = None
    gradient_bytes: float | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """A what-if: links so many times as fast, gradients so much smaller, buckets so many times as large."""

    link_ratio: float = 1.0
    bytes_ratio: float = 1.0
    bucket_ratio: float = 1.0


@dataclass(frozen=True, slots=True)
class Ask:
    """What is wanted beyond the measurements themselves."""

    fit_up_to: int | None = None
    project_to: tuple[int, ...] | None = None  # None: two and four times the largest measured count
    at: tuple[
        tuple[Setting, tuple[tuple[str, str], ...]], ...
    ] = ()  # settings, with the series they belong to
    samples: int | None = None
    absolute: bool = True  # whether step times are seconds, not derived from an ambiguous throughput
    prices: Prices = field(default_factory=Prices)
    change: Change = field(default_factory=Change)
    curves: tuple[Curve, ...] = ()
    plateau_epochs: Mapping[int, float] = field(
        default_factory=dict
    )  # global batch -> epochs to a stable accuracy
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Answers:
    """Everything that follows from the Profiles."""

    fit: Fit | None
    projections: tuple[Projection, ...]
    refusals: tuple[Refusal, ...]
    recommendations: tuple[Recommendation, ...]
    convergence: Convergence | None
    findings: tuple[Finding, ...]


def answers(
    profiles: Sequence[Profile],
    kind: TimeKind = "step",
    *,
    links: Mapping[str, Link] | None = None,
    cluster: Cluster | None = None,
    ask: Ask | None = None,
) -> Answers:
    """Fit every series, project what is asked, refuse what would be a guess. links: `inside`, `between`, as probed."""
    ask, cluster = ask or Ask(), _with_probes(cluster or Cluster(), links or {})
    epochs = epochs_law(ask.curves, ask.plateau_epochs)
    found = Answers(None, (), (), (), convergence_of(ask.curves, epochs), ())
    groups: dict[tuple[object, ...], list[Profile]] = {}
    for profile in profiles:
        groups.setdefault(labels(profile), []).append(profile)
    ordered = sorted(groups.values(), key=lambda group: -len(group))
    for group in ordered:
        part = _series(group, kind, cluster, ask, epochs, alone=len(ordered) == 1)
        if part is None:
            continue
        found = Answers(
            fit=part.fit if found.fit is None else found.fit,
            projections=found.projections + part.projections,
            refusals=found.refusals + part.refusals,
            recommendations=found.recommendations or part.recommendations,
            convergence=found.convergence,
            findings=found.findings + part.findings,
        )
    strangers = tuple(
        Refusal(
            setting.workers,
            "series",
            f"no measurement belongs to {', '.join(value for _, value in series)}",
            "measure that series at 1 and 2 workers, or correct its name in the table of points",
        )
        for setting, series in ask.at
        if len(ordered) > 1 and series and not any(set(series) <= set(g[0].point.varied) for g in ordered)
    )
    return replace(found, refusals=found.refusals + strangers)


def _series(
    group: Sequence[Profile],
    kind: TimeKind,
    cluster: Cluster,
    ask: Ask,
    epochs: EpochsLaw | None,
    *,
    alone: bool,
) -> Answers | None:
    everything = observe(group, kind, samples=ask.samples, absolute=ask.absolute)
    used = [p for p in group if ask.fit_up_to is None or p.point.workers <= ask.fit_up_to]
    observed = observe(used, kind, samples=ask.samples, absolute=ask.absolute)
    if observed is None or everything is None:
        return None
    if cluster.gradient_bytes is not None and observed.gradient_bytes is None:
        observed = replace(observed, gradient_bytes=cluster.gradient_bytes)
    law = fit_law(observed, inside=cluster.inside, between=cluster.between, seed=ask.seed)
    wanted = _settings(everything, observed, cluster, ask, alone=alone)
    allowed, refused = [], []
    for setting in wanted:
        reason = refusal(observed, setting, inside=cluster.inside, between=cluster.between)
        if reason is None:
            allowed.append(setting)
        else:
            refused.append(reason)
    samples = None if epochs is None else epochs.samples(allowed, observed.batch_known, seed=ask.seed)
    then = ask.change
    foreseen = changed_law(
        law, link_ratio=then.link_ratio, bytes_ratio=then.bytes_ratio, bucket_ratio=then.bucket_ratio
    )
    projected = projections(foreseen, allowed, epochs=samples)
    name = _series_name(observed)
    if name and not alone:
        projected = tuple(replace(p, explanation=f"{name}: {p.explanation}") for p in projected)
    refused += [r for p in projected if (r := too_wide(p, observed)) is not None]
    usable = not incomparable(observed.profiles)
    return Answers(
        fit=_fit_record(law, everything, ask),
        projections=projected,
        refusals=tuple(_once(refused)),
        recommendations=recommendations(law, projected, epochs=epochs, prices=ask.prices) if usable else (),
        convergence=None,
        findings=_two_nodes(observed, projected),
    )


def _settings(
    everything: Observed, observed: Observed, cluster: Cluster, ask: Ask, *, alone: bool
) -> list[Setting]:
    """What to project: the settings asked for, the counts asked for at every batch, and what was held out."""
    varied = everything.profiles[0].point.varied
    if ask.at:
        return [setting for setting, series in ask.at if alone or not series or set(series) <= set(varied)]
    counts = ask.project_to
    largest = int(observed.workers.max())
    if counts is None:
        counts = (2 * largest, 4 * largest) if ask.fit_up_to is None else ()
    batches: list[int | None] = [int(b) for b in observed.batches] if observed.batch_known else [None]
    if len(batches) > 1:
        batches = _batches_of_largest(observed)
    found = [
        Setting(p.point.workers, p.point.nodes, p.point.per_worker_batch)
        for p in everything.profiles
        if ask.fit_up_to is not None and p.point.workers > ask.fit_up_to
    ]
    known = {(s.workers, s.nodes, s.per_worker_batch) for s in found}
    for count in counts:
        nodes = _nodes(count, observed, cluster)
        strong = all(p.point.scaling == "strong" for p in everything.profiles) and observed.batch_known
        for batch in batches:
            each = batch
            if strong and everything.profiles[0].point.global_batch is not None:
                each = max(1, round(everything.profiles[0].point.global_batch / count))
            if (count, nodes, each) not in known:
                found.append(Setting(count, nodes, each))
                known.add((count, nodes, each))
    return found


def _batches_of_largest(observed: Observed) -> list[int | None]:
    """The batches that the largest count was measured at, of those the ones measured at the most counts."""
    at_top = np.unique(observed.batch[observed.workers == observed.workers.max()])
    counts = [len(np.unique(observed.workers[observed.batch == batch])) for batch in at_top]
    return [int(b) for b, many in zip(at_top, counts, strict=True) if many == max(counts)]


def _nodes(workers: int, observed: Observed, cluster: Cluster) -> int:
    """Nodes for a count: as declared, else as densely packed as was measured across nodes, else one."""
    per_node = cluster.workers_per_node
    if per_node is None and np.any(observed.nodes > 1):
        per_node = int(np.ceil(observed.workers / observed.nodes).max())
    return 1 if per_node is None else int(np.ceil(workers / per_node))


def _with_probes(cluster: Cluster, links: Mapping[str, Link]) -> Cluster:
    inside = measured(links["inside"]) if "inside" in links else cluster.inside
    between = measured(links["between"]) if "between" in links else cluster.between
    return replace(cluster, inside=inside, between=between)


def _fit_record(law: Law, everything: Observed, ask: Ask) -> Fit:
    unknown = unidentified(law)
    text = f"{len(law.observed.time_s)} settings, {len(law.members)} structures of equal weight"
    if unknown:
        text += f"; the data do not determine {', '.join(unknown)}"
    return Fit(parameters(law), unknown, _held_out(law, everything, ask), text)


def _held_out(law: Law, everything: Observed, ask: Ask) -> dict[str, float | None]:
    """Relative error at the largest measured count, ours beside every baseline, averaged over the batches."""
    nothing: dict[str, float | None] = dict.fromkeys(("paceline", *METHODS), None)
    largest = everything.workers.max()
    limit = ask.fit_up_to if ask.fit_up_to is not None else largest - 1
    kept = [p for p in everything.profiles if p.point.workers <= limit]
    out = [p for p in everything.profiles if p.point.workers == largest and p.point.workers > limit]
    if not out or len({p.point.workers for p in kept}) < 2:
        return nothing
    observed = observe(kept, everything.kind, samples=ask.samples, absolute=ask.absolute)
    if observed is None:
        return nothing
    refit = law if ask.fit_up_to is not None else fit_law(observed, members=8, seed=ask.seed)
    errors: dict[str, list[float]] = {}
    for profile in out:
        setting = Setting(profile.point.workers, profile.point.nodes, profile.point.per_worker_batch)
        if refusal(observed, setting) is not None:
            continue
        i = everything.profiles.index(profile)
        truth = float(everything.time_s[i])
        ours = float(np.median(draws(refit, [setting]).time_s))
        errors.setdefault("paceline", []).append(abs(ours / truth - 1.0))
        same = (everything.batch == everything.batch[i]) & (everything.workers <= max(limit, 0))
        work = everything.time_s[same] / everything.units[same] / everything.workers[same]
        count = [*everything.workers[same], float(largest)]
        times = [*work, truth / float(everything.units[i]) / float(largest)]
        for name, error in held_out_error(count, times).items():
            if error is not None:
                errors.setdefault(name, []).append(error)
    return nothing | {name: float(np.mean(values)) for name, values in errors.items()}


def _two_nodes(observed: Observed, projected: Sequence[Projection]) -> tuple[Finding, ...]:
    if observed.nodes.max() != 2 or not any(p.nodes > 2 for p in projected):
        return ()
    return (
        Finding(
            "two-nodes-only",
            "doubt",
            "the only measurements across nodes use exactly 2, which communication libraries treat as a special case; "
            "intervals for 3 and more nodes are wide for that reason",
            value=2.0,
            threshold=3.0,
            hint="measure 3 or 4 nodes with 1 worker each",
        ),
    )


def _series_name(observed: Observed) -> str:
    return ", ".join(value for _, value in observed.profiles[0].point.varied)


def _once(refused: Sequence[Refusal]) -> list[Refusal]:
    return list(dict.fromkeys(refused))
