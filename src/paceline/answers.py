"""Profiles -> answers, in one call: fit, projections or refusals, convergence, recommendations, findings.

A series (one device, one backend, one set of flags) gets one law. What is asked beyond it is refused, with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.advise import recommendations, undecided
from paceline.advise_options import candidates_of, decision_of
from paceline.answers_ask import Ask, Cluster
from paceline.answers_links import (
    determined,
    link_source,
    links_text,
    with_contention,
    with_links,
    with_probed,
    with_steadiness,
)
from paceline.answers_settings import placed, wanted_settings
from paceline.baselines import METHODS, held_out_error
from paceline.convergence import EpochsLaw, convergence_of, epochs_law
from paceline.doubling import told_curve
from paceline.fit import Law, fit_law, parameters, unidentified
from paceline.observe import Observed, Setting, labels, observe
from paceline.prior import alone_s
from paceline.project import draws, estimate_of, projections
from paceline.project_lines import fitted_lines
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
    TimeKind,
)
from paceline.refuse import Cores, incomparable, refusal, too_wide, tried
from paceline.resume import resumed_text
from paceline.units import range_text
from paceline.whatif import NO_CHANGE, changed_law

__all__ = ["Answers", "Ask", "Cluster", "answers"]


@dataclass(frozen=True, slots=True)
class Answers:
    """Everything that follows from the Profiles."""

    fit: Fit | None
    projections: tuple[Projection, ...]
    refusals: tuple[Refusal, ...]
    recommendations: tuple[Recommendation, ...]
    convergence: Convergence | None
    findings: tuple[Finding, ...]
    decision: Decision | None = None


def answers(
    profiles: Sequence[Profile],
    kind: TimeKind = "step",
    *,
    links: Mapping[str, Link] | None = None,
    cluster: Cluster | None = None,
    ask: Ask | None = None,
) -> Answers:
    """Fit every series, project what is asked, refuse what would be a guess. links: `inside`, `between`, as probed."""
    ask, cluster = ask or Ask(), with_links(cluster or Cluster(), links or {})
    epochs = epochs_law(ask.curves, ask.plateau_epochs)
    found = Answers(None, (), (), (), convergence_of(ask.curves, epochs), ())
    groups: dict[tuple[object, ...], list[Profile]] = {}
    for profile in profiles:
        groups.setdefault(labels(profile), []).append(profile)
    told = [labels(p) for p in told_curve([p for p in profiles if p.state == "ok"])[:1]]
    ordered = sorted(groups.values(), key=lambda group: (labels(group[0]) not in told, -len(group)))
    for group in ordered:
        part = _series(group, kind, cluster, ask, epochs, alone=len(ordered) == 1)
        if part is None:
            continue
        first = found.fit is None  # advice and choice are about the series that is told, or nothing
        found = Answers(
            fit=part.fit if first else found.fit,
            projections=found.projections + part.projections,
            refusals=found.refusals + part.refusals,
            recommendations=part.recommendations if first else found.recommendations,
            convergence=found.convergence,
            findings=found.findings + part.findings,
            decision=part.decision if first else found.decision,
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
    return replace(found, refusals=_once(found.refusals + strangers))


def _series(
    group: Sequence[Profile],
    kind: TimeKind,
    cluster: Cluster,
    ask: Ask,
    epochs: EpochsLaw | None,
    *,
    alone: bool,
) -> Answers | None:
    everything = _observe(group, kind, cluster, ask)
    used = [p for p in group if ask.fit_up_to is None or p.point.workers <= ask.fit_up_to]
    observed = _observe(used, kind, cluster, ask)
    if observed is None or everything is None:
        return None
    cluster = with_probed(cluster, observed.backend)
    observed = with_contention(with_steadiness(observed, cluster), cluster.between)
    law = fit_law(observed, inside=cluster.inside, between=cluster.between, seed=ask.seed)
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
    foreseen = law if then == NO_CHANGE else changed_law(law, then)
    projected = projections(foreseen, settings, epochs=samples)
    if then != NO_CHANGE:
        known = [_refused(observed, before, cluster) is None for before, _ in allowed]
        projected = _compared(law, foreseen, allowed, projected, known)
    name = _series_name(observed)
    which = f"{name}: " if name and not alone else ""
    projected = tuple(
        replace(p, explanation=which + p.explanation + link_source(cluster, p)) for p in projected
    )
    failed = {refusal.workers for refusal in refused if refusal.rule == "failed"}
    refused += [r for p in projected if (r := too_wide(p, observed, failed=failed)) is not None]
    advice: tuple[Recommendation, ...] = ()
    choice: Decision | None = None
    told = told_curve(observed.profiles)
    if not incomparable(told) and then == NO_CHANGE:  # advice is about the training as it is
        advice = recommendations(
            law, projected, epochs=epochs, prices=ask.prices, cores=_cores(cluster), failed=failed
        )
        choice = _decision(law, projected, epochs, ask, advice)
    advice = tuple(replace(r, text=which + r.text) for r in advice)
    return Answers(
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
    foreseen: Law,
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
        gain = draws(law, [before]).time_s / draws(foreseen, [after]).time_s
        if law.observed.kind == "step":
            gain = gain * foreseen.practice.micro_steps
        speed = range_text(estimate_of(gain, len(law.observed.time_s)), unit="x")
        found.append(
            replace(projection, explanation=f"{speed} the speed without the change; {projection.explanation}")
        )
    return tuple(found)


def _fit_record(
    law: Law, everything: Observed, cluster: Cluster, ask: Ask, projected: Sequence[Projection], *, which: str
) -> Fit:
    steady = law.observed.steady
    probed = determined(cluster) | (set() if steady is None else {"step_variation_ratio"})
    unknown = tuple(name for name in unidentified(law) if name not in probed)
    settings = len(law.observed.time_s)
    text = f"{which}{settings} setting{'s' if settings > 1 else ''}, {len(law.members)} structures of equal weight"
    if unknown:
        words = ["fixed cost" if name == "fixed_s" else _words(name) for name in unknown]
        text += f"; the data do not determine {', '.join(words)}"
    text += links_text(cluster)
    if steady is not None:
        told = "in this training" if steady.trained else "probed"
        text += f"; workers differ by {steady.at_once:.1%} at the same moment ({told})"
    if (waited := resumed_text(law.observed.resumed, alone_s(law.observed))) is not None:
        text += f"; computing takes {waited} after a wait (probed)"
    lines = fitted_lines(law, everything, projected) if ask.change == NO_CHANGE else ()
    return Fit(parameters(law), unknown, _held_out(law, everything, cluster, ask), text, lines)


def _words(name: str) -> str:
    """host_dilation_ratio as a person would say it."""
    return name.removesuffix("_s").removesuffix("_ratio").replace("_", " ")


def _held_out(law: Law, everything: Observed, cluster: Cluster, ask: Ask) -> dict[str, float | None]:
    """Relative error at the largest measured count, ours beside every baseline, averaged over the batches."""
    nothing: dict[str, float | None] = dict.fromkeys(("paceline", *METHODS), None)
    largest = everything.workers.max()
    limit = ask.fit_up_to if ask.fit_up_to is not None else largest - 1
    kept = [p for p in everything.profiles if p.point.workers <= limit]
    out = [p for p in everything.profiles if p.point.workers == largest and p.point.workers > limit]
    if not out or len({p.point.workers for p in kept}) < 2:
        return nothing
    observed = _observe(kept, everything.kind, cluster, ask)
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
    special = observed.backend != "gloo"  # its ring of two is a ring like any other
    if not special or observed.nodes.max() != 2 or not any(p.nodes > 2 for p in projected):
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
