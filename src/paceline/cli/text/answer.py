"""What a study says, on stdout: the verdict first, then the table, then the findings with the next command."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from paceline.analysis.json_file import analysis_data
from paceline.cli.text.accuracy import comparison_lines
from paceline.cli.text.bars import BAR, bar_legend, step_bars
from paceline.cli.text.guard import shown, unguarded
from paceline.cli.text.memory import largest_batch_lines, memory_text
from paceline.cli.text.plan import print_json
from paceline.cli.text.recipe import answer_lines
from paceline.cli.text.terminal import bold, fitted, folded_table, narrowed, terminal_width
from paceline.core import units
from paceline.core.stats import scaled
from paceline.core.words import LEVELS
from paceline.decide.sentence import verdict_text
from paceline.records import Analysis, Estimate, Finding, Profile
from paceline.report.commands import filled
from paceline.store.paths import StudyFolder

__all__ = ["analysis_text", "finding_lines", "print_analysis"]

_SHOWN = 2
_KINDS = 3  # of findings, at the end of a study
_ORDER = ("void", "doubt", "note")
_COLOURS = {"use": 32, "stay": 32, "undecided": 33, "no_answer": 31}
# given up in this order where a terminal is too narrow
_OPTIONAL = ("state", "runs", "memory", "data wait", "samples/s", "tokens/s", "comm wait", BAR)
_FORECASTS = 6  # of memory, at the end of a study
_NAMES = 4  # of points that share a finding
_LEGEND = "comm wait: share of a step spent waiting for the network and the slowest worker"
_COLUMNS = (
    "workers", "batch", "step ms", "samples/s", "speed-up", "efficiency",
    "comm wait", "data wait", "memory", "runs", "state",
)  # fmt: skip


def print_analysis(analysis: Analysis, *, folder: StudyFolder, json: bool, everything: bool = False) -> None:
    """Data on stdout: JSON, or text; on a terminal the most important of it, unless everything is wanted."""
    if json:
        print_json(analysis_data(analysis))
    else:
        width = terminal_width()
        brief = width is not None and not everything
        text = analysis_text(analysis, folder=folder.root, width=width, brief=brief)
        headline, _, rest = text.partition("\n\n")  # the colour is ours; what others wrote stays guarded
        colour = _COLOURS[analysis.verdict.answer]
        lines = (bold(shown(line), colour) for line in headline.splitlines())
        print("\n".join(lines), file=unguarded(sys.stdout))
        print(f"\n{rest}")


def analysis_text(analysis: Analysis, *, folder: Path, width: int | None = None, brief: bool = False) -> str:
    """The answer as text, for a terminal of this width where there is one; `brief`: what matters most."""
    parts = [*fitted(verdict_text(analysis.verdict), width), ""]
    if analysis.convergence is not None and analysis.convergence.comparisons:
        parts += [*comparison_lines(analysis.convergence, width=width), ""]
    table = _table(analysis.points, width=width, brief=brief)
    parts += [table, *_strategy_lines(analysis.points)]
    if BAR in table:
        parts += [*fitted(f"{BAR}: {bar_legend(step_bars(analysis.points))}", width)]
    if "comm wait" in table and any(profile.exposed_s for profile in analysis.points):
        parts += [*fitted(_LEGEND, width)]
    name = shlex.quote(str(folder))
    if outlook := list(_outlook(analysis, width)):
        parts += ["", *outlook]
    for found in largest_batch_lines(analysis):
        parts += ["", *fitted(found, width)]
    if any(forecast.fits for forecast in analysis.memory):
        parts += ["", *memory_text(analysis, most=_FORECASTS)]
    if analysis.findings:
        parts += ["", *_most_important(analysis, name, brief=brief, width=width)]
    if analysis.answers:
        parts += ["", *answer_lines(analysis, width=width)]
    parts += ["", f"Study: {folder}    again: paceline show {name}"]
    return "\n".join(parts)


def _most_important(analysis: Analysis, folder: str, *, brief: bool, width: int | None) -> Iterator[str]:
    """All findings, or those of the first three kinds with how many kinds are left."""
    findings = analysis.findings
    kinds = list(
        dict.fromkeys((f.level, f.id) for f in sorted(findings, key=lambda f: _ORDER.index(f.level)))
    )
    shown = kinds[:_KINDS] if brief else kinds
    yield from finding_lines(
        [f for kind in shown for f in findings if (f.level, f.id) == kind], folder=folder, width=width
    )
    if left := len(kinds) - len(shown):
        yield f"       … and {left} more: paceline show {folder} --all"


def _outlook(analysis: Analysis, width: int | None) -> Iterator[str]:
    """What follows for workers that were not measured, in three lines; --json and the report have all of it."""
    advice = {recommendation.goal: recommendation for recommendation in analysis.recommendations}
    for rule in (r for r in analysis.recommendations if r.goal == "lr-rule"):
        yield from _fitted(f"advice {rule.text} ({rule.condition})", width)
    if (knee := advice.get("knee")) is not None and analysis.projections:
        how = "measured" if knee.measured else "predicted, if every worker gets its own device"
        yield from _fitted(f"advice {knee.sentences} ({how})", width)
    refused = [refusal for refusal in analysis.refusals if refusal.rule != "wide-interval"]
    if refused:
        counts = units.counts_text(refusal.workers for refusal in refused)
        reason = f"{refused[0].reason} [{refused[0].rule}]"
        yield from _fitted(f"no prediction for {counts} workers: {reason}", width)
    if (following := advice.get("next-measurement")) is not None:
        yield from _next(f"measure {following.sentences}", width)
    elif refused:
        yield from _next(refused[0].would_help, width)


def finding_lines(findings: Sequence[Finding], *, folder: str, width: int | None = None) -> Iterator[str]:
    """Findings of one kind together, the first two in full, and what to do about them once.

    A command to copy is left in one piece, however narrow the terminal.
    """
    kinds = dict.fromkeys((finding.level, finding.id) for finding in findings)
    for level, kind in kinds:
        same = [finding for finding in findings if (finding.level, finding.id) == (level, kind)]
        said = _said_once(same)
        for text in list(said)[:_SHOWN]:
            yield from _fitted(f"{LEVELS[level]:<7}  {text} [{kind}]", width)
        if (more := sum(list(said.values())[_SHOWN:])) > 0:
            yield f"       … and at {more} more setting{'s' if more > 1 else ''} (--json shows all)"
        hints = dict.fromkeys((f.command is None, f.following) for f in same[:_SHOWN] if f.following)
        for words, following in hints:
            yield from _next(filled(following, folder), width if words else None)


def _said_once(findings: Sequence[Finding]) -> dict[str, int]:
    """What is said of several points in the same words, once, with all their names; and of how many points."""
    points: dict[str, list[str]] = {}
    for finding in findings:
        points.setdefault(finding.message, []).append(finding.point or "")
    return {f"{_listed(names)}: {text}" if names[0] else text: len(names) for text, names in points.items()}


def _listed(names: Sequence[str]) -> str:
    """w1, w2, w4 and 5 more."""
    shown = names if len(names) <= _NAMES + 1 else names[:_NAMES]
    more = f" and {len(names) - len(shown)} more" if len(shown) < len(names) else ""
    return f"{', '.join(shown)}{more}"


def _fitted(line: str, width: int | None) -> Iterator[str]:
    """A line with a mark of seven columns before it."""
    return fitted(line, width, indent=7)


def _next(what: str, width: int | None) -> Iterator[str]:
    return fitted(f"       next: {what}", width, indent=13)


def _table(points: tuple[Profile, ...], *, width: int | None, brief: bool) -> str:
    labels = [_label(p) for p in points]
    distinct = len(set(labels)) > 1
    spread = any(p.point.nodes > 1 for p in points)
    worded = any(p.tokens_per_s for p in points)
    bars = step_bars(points) if width is not None else []  # a file is searched, not looked at
    rows = [
        [
            *([label] if distinct else []),
            *([profile.point.nodes] if spread else []),
            profile.point.workers,
            profile.point.global_batch or "–",
            units.rough_text(profile.step_s, factor=1e3),
            units.rough_text(profile.throughput_per_s),
            *([units.rough_text(profile.tokens_per_s)] if worded else []),
            "1" if _is_baseline(profile) else units.gain_text(profile.speedup),
            "100%" if _is_baseline(profile) else units.percent_text(profile.efficiency_ratio),
            _share(profile.exposed_s, profile.step_s),
            _share(profile.input_s, profile.step_s),
            units.bytes_text(profile.peak_memory_bytes.value if profile.peak_memory_bytes else None),
            profile.step_s.n if profile.step_s else 0,
            "not run" if profile.state == "cancelled" and not profile.trials else profile.state,
            *([bars[i]] if any(bars) else []),
        ]
        for i, (profile, label) in enumerate(zip(points, labels, strict=True))
    ]
    places = [*(["setting"] if distinct else []), *(["nodes"] if spread else [])]
    headers = [*places, *((*_COLUMNS[:4], "tokens/s", *_COLUMNS[4:]) if worded else _COLUMNS)]
    headers += [BAR] if any(bars) else []
    if points and all(profile.unit == "GPU" for profile in points):
        headers[headers.index("workers")] = "GPUs"
    if brief:
        kept = narrowed(headers, rows, optional=_unneeded(points), width=width)
        headers, rows = [headers[i] for i in kept], [[row[i] for i in kept] for row in rows]
    return folded_table(headers, rows, first=len(places) + 1, width=width)


def _unneeded(points: tuple[Profile, ...]) -> tuple[str, ...]:
    """Columns that a narrow terminal may do without: states that are all well, a batch that is the same everywhere."""
    well = all(profile.state == "ok" for profile in points)
    same = len({profile.point.global_batch for profile in points}) == 1
    return (*(("state",) if well else ()), *(("batch",) if same else ()), *_OPTIONAL[1:])


def _strategy_lines(points: Sequence[Profile]) -> Iterator[str]:
    """How the network is spread over workers, and how many copies of it they hold."""
    named = [name for name in dict.fromkeys(p.strategy for p in points) if name not in (None, "none")]
    shared = {p.point.workers: p.replicas for p in points if p.replicas and p.replicas < p.point.workers}
    copies = [
        f"{n} workers hold {held} cop{'y' if held == 1 else 'ies'} of the network"
        for n, held in shared.items()
    ]
    if named:
        yield f"strategy: {'; '.join([', '.join(map(str, named)), *copies])}"


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
