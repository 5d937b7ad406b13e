"""What a study says, on stdout: the verdict first, then the table, then the findings with the next command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from paceline import units
from paceline.analysis_json import analysis_data
from paceline.analyze import study_analysis
from paceline.answers import Ask, Cluster
from paceline.cli.accuracy_text import comparison_lines
from paceline.cli.plan_text import print_json
from paceline.cli.probed import probed_in, with_probe_results, with_probed_links
from paceline.cli.recipe_answers import answer_lines, recipe_of, with_answers
from paceline.cli.source import source_of
from paceline.cli.terminal import fitted, folded_table, terminal_width
from paceline.records import Analysis, Estimate, Finding, Profile, Study, TrialResult
from paceline.stats import scaled
from paceline.store.paths import StudyFolder
from paceline.store.preflight_file import preflight_findings_of
from paceline.store.trial_files import read_results

__all__ = ["analysis_of_folder", "analysis_text", "finding_lines", "print_analysis"]

_MARKS = {"note": "note ", "doubt": "DOUBT", "void": "VOID "}
_SHOWN = 2
_NAMES = 4  # of points that share a finding
_LEGEND = (
    "exposed: share of a step spent on exchange and on late workers; input: share spent waiting for data"
)
_PLACE = re.compile(r"\bSTUDY\b")  # in a hint: this study
_COLUMNS = (
    "workers", "global batch", "step ms", "samples/s", "speed-up", "efficiency",
    "exposed", "input", "memory", "launches", "state",
)  # fmt: skip


def analysis_of_folder(
    folder: StudyFolder,
    study: Study,
    *,
    ask: Ask | None = None,
    cluster: Cluster | None = None,
    results: Sequence[TrialResult] | None = None,
) -> Analysis:
    """Everything that the complete trials say, and what follows for what is asked, computed anew.

    `results`: the trials, where they have been read already.
    """
    if results is None:
        results = read_results(folder)
    chosen = recipe_of(study)
    if ask is None and chosen is not None and chosen.project:
        ask = Ask(project_to=chosen.project)
    source = source_of(folder, study, results)
    found = probed_in(folder, cluster)
    analysis = study_analysis(
        study,
        results,
        source,
        ask=ask,
        cluster=with_probed_links(cluster, found),
        preflight=preflight_findings_of(folder),
    )
    analysis = with_probe_results(analysis, found)
    return analysis if chosen is None else with_answers(analysis, study, chosen)


def print_analysis(analysis: Analysis, *, folder: StudyFolder, json: bool) -> None:
    """Data on stdout: JSON, or text."""
    if json:
        print_json(analysis_data(analysis))
    else:
        print(analysis_text(analysis, folder=folder.root, width=terminal_width()))


def analysis_text(analysis: Analysis, *, folder: Path, width: int | None = None) -> str:
    """The whole answer as text, for a terminal of this width where there is one."""
    parts = [*fitted(analysis.verdict, width), ""]
    if analysis.convergence is not None and analysis.convergence.comparisons:
        parts += [*comparison_lines(analysis.convergence), ""]
    parts += [_table(analysis.points, width=width)]
    if any(profile.exposed_s for profile in analysis.points):
        parts += [*fitted(_LEGEND, width)]
    name = shlex.quote(str(folder))
    if outlook := list(_outlook(analysis)):
        parts += ["", *_fitted(outlook, width)]
    if analysis.findings:
        parts += ["", *_fitted(finding_lines(analysis.findings, folder=name), width)]
    if analysis.answers:
        parts += ["", *answer_lines(analysis, width=width)]
    parts += ["", f"Study: {folder}    again: paceline show {name}"]
    return "\n".join(parts)


def _outlook(analysis: Analysis) -> Iterator[str]:
    """What follows for workers that were not measured, in three lines; --json and the report have all of it."""
    advice = {recommendation.goal: recommendation for recommendation in analysis.recommendations}
    for rule in (r for r in analysis.recommendations if r.goal == "lr-rule"):
        yield f"advice {rule.text} ({rule.condition})"
    if (knee := advice.get("knee")) is not None and analysis.projections:
        yield f"advice {knee.text} ({knee.condition.partition(';')[0]})"
    refused = [refusal for refusal in analysis.refusals if refusal.rule != "wide-interval"]
    if refused:
        counts = units.counts_text(refusal.workers for refusal in refused)
        yield f"not projected: {counts} workers: {refused[0].reason} [{refused[0].rule}]"
    if (following := advice.get("next-measurement")) is not None:
        yield f"       next: {following.text}"
    elif refused:
        yield f"       next: {refused[0].would_help}"


def finding_lines(findings: Sequence[Finding], *, folder: str) -> Iterator[str]:
    """Findings of one kind together, the first two in full, and what to do about them once."""
    kinds = dict.fromkeys((finding.level, finding.id) for finding in findings)
    for level, kind in kinds:
        same = [finding for finding in findings if (finding.level, finding.id) == (level, kind)]
        said = _said_once(same)
        yield from (f"{_MARKS[level]}  {text} [{kind}]" for text in list(said)[:_SHOWN])
        if (more := sum(list(said.values())[_SHOWN:])) > 0:
            yield f"       … and at {more} more point{'s' if more > 1 else ''} (--json shows all)"
        hints = dict.fromkeys(finding.hint for finding in same[:_SHOWN] if finding.hint)
        yield from (f"       next: {_PLACE.sub(lambda _: folder, hint)}" for hint in hints)


def _said_once(findings: Sequence[Finding]) -> dict[str, int]:
    """What is said of several points in the same words, once, with all their names; and of how many points."""
    points: dict[str, list[str]] = {}
    for finding in findings:
        point, colon, text = finding.message.partition(": ")
        points.setdefault(text if colon and " " not in point else finding.message, []).append(
            point if colon and " " not in point else ""
        )
    return {f"{_listed(names)}: {text}" if names[0] else text: len(names) for text, names in points.items()}


def _listed(names: Sequence[str]) -> str:
    """w1, w2, w4 and 5 more."""
    shown = names if len(names) <= _NAMES + 1 else names[:_NAMES]
    more = f" and {len(names) - len(shown)} more" if len(shown) < len(names) else ""
    return f"{', '.join(shown)}{more}"


def _fitted(lines: Iterable[str], width: int | None) -> Iterator[str]:
    """Lines with a mark of seven columns before them; a command to copy is left in one piece."""
    for line in lines:
        if line.lstrip().startswith("next: paceline "):
            yield line
        else:
            yield from fitted(line, width, indent=13 if line.lstrip().startswith("next: ") else 7)


def _table(points: tuple[Profile, ...], *, width: int | None) -> str:
    labels = [_label(p) for p in points]
    distinct = len(set(labels)) > 1
    spread = any(p.point.nodes > 1 for p in points)
    rows = [
        [
            *([label] if distinct else []),
            *([profile.point.nodes] if spread else []),
            profile.point.workers,
            profile.point.global_batch or "–",
            units.estimate_text(profile.step_s, factor=1e3),
            units.estimate_text(profile.throughput_per_s),
            "1" if _is_baseline(profile) else units.estimate_text(profile.speedup),
            "100%" if _is_baseline(profile) else units.percent_text(profile.efficiency_ratio),
            _share(profile.exposed_s, profile.step_s),
            _share(profile.input_s, profile.step_s),
            units.bytes_text(profile.peak_memory_bytes.value if profile.peak_memory_bytes else None),
            profile.step_s.n if profile.step_s else 0,
            "not run" if profile.state == "cancelled" and not profile.trials else profile.state,
        ]
        for profile, label in zip(points, labels, strict=True)
    ]
    headers = [*(["point"] if distinct else []), *(["nodes"] if spread else []), *_COLUMNS]
    return folded_table(headers, rows, first=len(headers) - len(_COLUMNS) + 1, width=width)


def _is_baseline(profile: Profile) -> bool:
    """Speed-up is relative to this point: one by definition, not by measurement."""
    speedup = profile.speedup
    return speedup is not None and speedup.low == speedup.value == speedup.high == 1.0


def _label(profile: Profile) -> str:
    """What sets this point apart, beside its workers and batch."""
    point = profile.point
    varied = [f"{flag.lstrip('-')}={value}" for flag, value in point.varied]
    return " ".join([point.scaling, *([point.backend] if point.backend else []), *varied])


def _share(part: Estimate | None, whole: Estimate | None) -> str:
    if part is None or whole is None or whole.value <= 0:
        return "–"
    share = scaled(part, 1.0 / whole.value)
    return "–" if share is None else f"{share.value * 100:.1f}%"
