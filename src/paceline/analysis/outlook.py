"""Profiles -> Outlook, in one call: fit, projections or refusals, convergence, recommendations, findings.

A series (one device, one backend, one set of flags) gets one law. What is asked beyond it is refused, with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.analysis.evidence import (
    determined,
    link_source,
    links_text,
    with_contention,
    with_links,
    with_probed,
    with_steadiness,
)
from paceline.analysis.question import Ask, Cluster, network_of
from paceline.analysis.settings import placed, wanted_settings
from paceline.converge.epochs import EpochsLaw, convergence_of, epochs_law
from paceline.core.units import range_text
from paceline.core.words import parameter_text
from paceline.decide.options import candidates_of, decision_of
from paceline.decide.recommend import recommendations, undecided
from paceline.measure.comparable import incomparable
from paceline.measure.series import headline_series
from paceline.predict.after_wait import after_wait_text
from paceline.predict.baselines import METHODS, held_out_error
from paceline.predict.curves import fitted_lines
from paceline.predict.fit import MEMBERS, Law, fit_law, parameters, unidentified
from paceline.predict.observations import Observed, labels, observe
from paceline.predict.prior import alone_s
from paceline.predict.project import draws, estimate_of, projections
from paceline.predict.refusals import Cores, refusal, too_wide, tried
from paceline.predict.whatif import NO_CHANGE, changed_law
from paceline.records import (
    Convergence,
    Decision,
    Finding,
    Fit,
    Link,
    Profile,
    Projection,
    Recommendation,
    Refusal,
    Setting,
    TimeKind,
)

__all__ = ["Outlook", "outlook"]


@dataclass(frozen=True, slots=True)
class Outlook:
    """Everything that follows from the Profiles."""

    fit: Fit | None
    projections: tuple[Projection, ...]
    refusals: tuple[Refusal, ...]
    recommendations: tuple[Recommendation, ...]
    convergence: Convergence | None
    findings: tuple[Finding, ...]
    decision: Decision | None = None


def outlook(
    profiles: Sequence[Profile],
    kind: TimeKind = "step",
    *,
    links: Mapping[str, Link] | None = None,
    cluster: Cluster | None = None,
    ask: Ask | None = None,
) -> Outlook:
    """Fit every series, project what is asked, refuse what would be a guess. links: `inside`, `between`, as probed."""
    ask, cluster = ask or Ask(), with_links(cluster or Cluster(), links or {})
    found = Outlook(None, (), (), (), None, ())
    groups: dict[tuple[object, ...], list[Profile]] = {}
    for profile in profiles:
        groups.setdefault(labels(profile), []).append(profile)
    told = headline_series(p for p in profiles if p.state == "ok")
    first = None if told is None else labels(told.baseline)
    ordered = sorted(groups.values(), key=lambda group: (labels(group[0]) != first, -len(group)))
    for group in ordered:
        epochs = _epochs_law(ask, group[0])
        found = replace(found, convergence=found.convergence or convergence_of(ask.curves, epochs))
        part = _series(group, kind, cluster, ask, epochs, alone=len(ordered) == 1)
        if part is None:
            continue
        leads = (
            found.fit is None
        )  # advice and choice are about the series that the headline is about, or nothing
        found = Outlook(
            fit=part.fit if leads else found.fit,
            projections=found.projections + part.projections,
            refusals=found.refusals + part.refusals,
            recommendations=part.recommendations if leads else found.recommendations,
            convergence=found.convergence,
            findings=found.findings + part.findings,
            decision=part.decision if leads else found.decision,
        )
    strangers = tuple(
        Refusal(
            setting.workers,
            "series",
            f"no measurement belongs to {', '.join(value for _, value in series)}",
            "measure that series at 1 and 2 workers, or correct its name in the table",
        )
        for setting, series in ask.at
        if len(ordered) > 1 and series and not any(set(series) <= set(g[0].point.varied) for g in ordered)
    )
    return replace(found, refusals=_once(found.refusals + strangers))


def _epochs_law(ask: Ask, profile: Profile) -> EpochsLaw | None:
    """Of one network: another one learns at a pace of its own, another device does not."""
    return epochs_law(ask.curves, ask.plateau_epochs.get(network_of(profile.point.varied), {}))


def _series(
    group: Sequence[Profile],
    kind: TimeKind,
    cluster: Cluster,
    ask: Ask,
    epochs: EpochsLaw | None,
    *,
    alone: bool,
) -> Outlook | None:
    everything = _observe(group, kind, cluster, ask)
    used = [p for p in group if ask.fit_up_to is None or p.point.workers <= ask.fit_up_to]
    if everything is None:
        return None
    cluster = with_probed(cluster, everything.backend)
    law = _law(used, kind, cluster, ask)
    if law is None:
        return None
    observed = law.observed
    then = ask.change
    allowed: list[tuple[Setting, Setting]] = []  # as it would be placed without the change, and with it
    refused: list[Refusal] = []
    for before in wanted_settings(everything, observed, cluster, ask, alone=alone):
        after = placed(before, then.workers_per_node)
        reason = _refused(observed, after, cluster) or (tried(after, group) if then == NO_CHANGE else None)
        if reason is None:
            allowed.append((before, after))
        else:
            refused.append(reason)
    settings = [after for _, after in allowed]
    samples = None
    if epochs is not None:
        samples = epochs.samples(
            [_whole_step(s, then.micro_steps) for s in settings], observed.batch_known, seed=ask.seed
        )
    changed = law if then == NO_CHANGE else changed_law(law, then)
    projected = projections(changed, settings, epochs=samples)
    if then != NO_CHANGE:
        known = [_refused(observed, before, cluster) is None for before, _ in allowed]
        projected = _compared(law, changed, allowed, projected, known)
    name = _series_name(observed)
    which = f"{name}: " if name and not alone else ""
    projected = tuple(
        replace(p, explanation=which + p.explanation + link_source(cluster, p)) for p in projected
    )
    failed = {refusal.workers for refusal in refused if refusal.rule == "failed"}
    refused += [r for p in projected if (r := too_wide(p, observed, failed=failed)) is not None]
    advice: tuple[Recommendation, ...] = ()
    choice: Decision | None = None
    told = headline_series(observed.profiles)
    comparable = told is not None and not incomparable(told.profiles)
    if comparable and then == NO_CHANGE:  # advice is about the training as it is
        advice = recommendations(
            law, projected, epochs=epochs, prices=ask.prices, cores=_cores(cluster), failed=failed
        )
        choice = _decision(law, projected, epochs, ask, advice)
        advice = tuple(replace(r, series="" if alone else name) for r in advice)
    return Outlook(
        fit=_fit_record(law, everything, cluster, ask, projected, which=which),
        projections=projected,
        refusals=tuple(dict.fromkeys(refused)),
        recommendations=advice,
        convergence=None,
        findings=_two_nodes(observed, projected),
        decision=choice,
    )


def _once(refusals: Sequence[Refusal]) -> tuple[Refusal, ...]:
    """Series that are refused for one reason say it once; the first one's price stands."""
    return tuple({(r.workers, r.rule, r.reason): r for r in reversed(refusals)}.values())[::-1]


def _decision(
    law: Law,
    projected: Sequence[Projection],
    epochs: EpochsLaw | None,
    ask: Ask,
    advice: Sequence[Recommendation],
) -> Decision | None:
    """Time against cost, where there is something to choose from."""
    candidates = candidates_of(law, projected, epochs=epochs, prices=ask.prices)
    if candidates is None or len(candidates.settings) < 2:
        return None
    knee = next((r.workers for r in advice if r.goal == "knee"), None)
    return decision_of(candidates, ask.prices, chosen=None if undecided(candidates, ask.prices) else knee)


def _law(
    profiles: Sequence[Profile], kind: TimeKind, cluster: Cluster, ask: Ask, *, members: int = MEMBERS
) -> Law | None:
    """The law of measurements and of everything that was probed or declared beside them."""
    observed = _observe(profiles, kind, cluster, ask)
    if observed is None:
        return None
    observed = with_contention(with_steadiness(observed, cluster), cluster.between)
    return fit_law(observed, inside=cluster.inside, between=cluster.between, members=members, seed=ask.seed)


def _observe(profiles: Sequence[Profile], kind: TimeKind, cluster: Cluster, ask: Ask) -> Observed | None:
    """The usable measurements; what they do not say themselves, as the cluster says it."""
    found = observe(profiles, kind, samples=ask.samples, absolute=ask.absolute, backend=cluster.backend)
    if found is None or found.gradient_bytes is not None:
        return found
    return replace(found, gradient_bytes=cluster.gradient_bytes)


def _refused(observed: Observed, setting: Setting, cluster: Cluster) -> Refusal | None:
    return refusal(observed, setting, inside=cluster.inside, between=cluster.between, cores=_cores(cluster))


def _cores(cluster: Cluster) -> Cores | None:
    """Cores bound what fits on a node, unless nodes were declared: those are other machines."""
    return cluster.cores if cluster.workers_per_node is None else None


def _whole_step(setting: Setting, micro_steps: int) -> Setting:
    """The setting as accuracy sees it: all samples between two updates."""
    each = setting.per_worker_batch
    return setting if each is None else replace(setting, per_worker_batch=each * micro_steps)


def _compared(
    law: Law,
    changed: Law,
    allowed: Sequence[tuple[Setting, Setting]],
    projected: Sequence[Projection],
    known: Sequence[bool],
) -> tuple[Projection, ...]:
    """What the change gains in work per second, member by member, where the unchanged training may be projected."""
    found = []
    for (before, after), projection, sure in zip(allowed, projected, known, strict=True):
        if not sure:
            found.append(projection)
            continue
        gain = draws(law, [before]).time_s / draws(changed, [after]).time_s
        if law.observed.kind == "step":
            gain = gain * changed.practice.micro_steps
        speed = range_text(estimate_of(gain, len(law.observed.time_s)), unit="x")
        found.append(
            replace(projection, explanation=f"{speed} the speed without the change; {projection.explanation}")
        )
    return tuple(found)


def _fit_record(
    law: Law, everything: Observed, cluster: Cluster, ask: Ask, projected: Sequence[Projection], *, which: str
) -> Fit:
    jitter = law.observed.jitter
    probed = determined(cluster) | (set() if jitter is None else {"step_variation_ratio"})
    unknown = tuple(name for name in unidentified(law) if name not in probed)
    settings, models = len(law.observed.time_s), len(law.members)
    text = (
        f"{which}{settings} setting{'s' if settings > 1 else ''}, {models} model{'s' if models > 1 else ''}"
    )
    if unknown:
        text += f". Not determined by the data: {', '.join(map(parameter_text, unknown))}"
    text += links_text(cluster)
    if jitter is not None:
        told = "in this training" if jitter.trained else "probed"
        text += f". Workers differ by {jitter.at_once:.1%} at the same moment ({told})"
    if (waited := after_wait_text(law.observed.after_wait, alone_s(law.observed))) is not None:
        text += f". Computing takes {waited} after a wait (probed)"
    lines = fitted_lines(law, everything, projected) if ask.change == NO_CHANGE else ()
    return Fit(parameters(law), unknown, _held_out(law, everything, cluster, ask), text, lines)


def _held_out(law: Law, everything: Observed, cluster: Cluster, ask: Ask) -> dict[str, float | None]:
    """Relative error at the largest measured count, ours beside every baseline, averaged over the batches."""
    nothing: dict[str, float | None] = dict.fromkeys(("paceline", *METHODS), None)
    largest = everything.workers.max()
    limit = ask.fit_up_to if ask.fit_up_to is not None else largest - 1
    kept = [p for p in everything.profiles if p.point.workers <= limit]
    out = [p for p in everything.profiles if p.point.workers == largest and p.point.workers > limit]
    if not out or len({p.point.workers for p in kept}) < 2:
        return nothing
    refit = law if ask.fit_up_to is not None else _law(kept, everything.kind, cluster, ask, members=8)
    if refit is None:
        return nothing
    errors: dict[str, list[float]] = {}
    for profile in out:
        setting = Setting(profile.point.workers, profile.point.nodes, profile.point.per_worker_batch)
        if _refused(refit.observed, setting, cluster) is not None:
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
    special = observed.backend != "gloo"  # its ring of two is a ring like any other
    if not special or observed.nodes.max() != 2 or not any(p.nodes > 2 for p in projected):
        return ()
    return (
        Finding(
            "two-nodes-only",
            "doubt",
            "the only measurements across nodes use 2 nodes, a special case for communication libraries. "
            "Intervals for 3 and more nodes are wide for that reason",
            value=2.0,
            threshold=3.0,
            hint="measure 3 or 4 nodes with 1 worker each",
        ),
    )


def _series_name(observed: Observed) -> str:
    return ", ".join(value for _, value in observed.profiles[0].point.varied)
