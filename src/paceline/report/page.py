"""A report as one HTML file that needs nothing else: verdict, tables and pictures stand in it, scripts add to them.

Without scripts, or where a policy forbids them, every sentence, table and static picture is there. Scripts make the
charts interactive and add the buttons that copy tables and save figures. The file asks no server for anything: its
own policy forbids it. Without vl-convert it comes without pictures and says how to get them.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from gzip import compress

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from paceline.core.errors import PacelineError
from paceline.core.words import LEVELS, capital
from paceline.decide.sentence import verdict_sentences
from paceline.records import Analysis, Failure, Finding, Line
from paceline.report.advice import Advice, advice
from paceline.report.charts import draw
from paceline.report.charts.compared import compared_section
from paceline.report.commands import with_commands
from paceline.report.document import Figure, Section, Spec, Table
from paceline.report.escape import visible
from paceline.report.lead import Tile, lead_figures, tiles
from paceline.report.sections import sections, title
from paceline.report.tables.answers import source_table
from paceline.report.tables.definitions import DEFINITIONS
from paceline.report.tables.grid_text import csv_of, latex_of, markdown_of
from paceline.report.tables.measured import overhead_table
from paceline.report.tables.provenance import measured_how

__all__ = ["page"]

_INNER_LABELS = re.compile(r' (?:role|aria-[a-z]+)="[^"]*"')
_FINE = re.compile(r"(\.\d)\d+(?=[^<>]*>)")  # tenths of a pixel are enough; text between tags is left alone
_SVG = re.compile(r"<svg\b")
_LEVELS = ("void", "doubt", "note")
_MOST_ROWS = 80
_MOST_OF_A_KIND = 8
_MOST_FAILURES = 30


@dataclass(frozen=True, slots=True)
class _Study:
    """One study on the page. `prefix` keeps its ids apart from those of the others."""

    name: str
    prefix: str
    analysis: Analysis
    verdict: tuple[str, ...]  # its sentences; the first is the headline
    brief: tuple[Line, ...]
    how: str | None
    tiles: tuple[Tile, ...]
    nothing: bool  # runs failed and none was measured: it looks so
    lead: tuple[Figure, ...]
    asked: Section | None  # what a recipe asks, with its answers
    advice: tuple[Advice, ...]
    sections: tuple[Section, ...]
    overhead: Table | None
    source: Table | None
    levels: tuple[_Level, ...]
    failures: tuple[Failure, ...]
    notes: dict[str, str]  # what a folded part holds, beside its heading


@dataclass(frozen=True, slots=True)
class _Kind:
    """Findings that say the same of several points: the first few, how many are left out, and what follows."""

    id: str
    shown: tuple[Finding, ...]
    left: int
    hints: tuple[tuple[str | None, str | None], ...]  # a command, what it is for or words alone


@dataclass(frozen=True, slots=True)
class _Level:
    """The findings of one level, kind by kind, and how many there are."""

    name: str
    count: int
    kinds: tuple[_Kind, ...]


def page(studies: Sequence[tuple[str, Analysis]], *, so_far: bool = False) -> str:
    """The whole file. One study, or several that are compared first and then shown one by one.

    `so_far`: more is being measured, and what is said may still change."""
    shown = [
        _study(name, analysis, f"s{i}-" if len(studies) > 1 else "")
        for i, (name, analysis) in enumerate(studies, 1)
    ]
    together = compared_section(studies) if len(studies) > 1 else None
    parts = [*([together] if together else []), *(section for study in shown for section in study.sections)]
    figures = [figure for section in parts for figure in section.figures]
    figures += [figure for study in shown for figure in study.lead]
    parts += [study.asked for study in shown if study.asked is not None]
    tables = [table for section in parts for table in section.tables]
    tables += [t for study in shown for t in (study.overhead, study.source) if t is not None]
    drawn = draw.can_draw()
    environment = Environment(
        loader=PackageLoader("paceline.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["visible"] = visible
    environment.filters["capital"] = capital
    environment.globals["level_names"] = LEVELS
    return environment.get_template("page.html").render(
        title=" · ".join(study.name for study in shown),
        studies=shown,
        so_far=so_far,
        together=together,
        definitions=DEFINITIONS,
        pictures={figure.id: _picture(figure) for figure in figures} if drawn else {},
        specs={figure.id: _without_schema(figure.spec) for figure in figures} if drawn else {},
        copies={table.id: _copies(table) for table in tables},
        scripts=_packed(draw.scripts()) if drawn and figures else "",
        extra=None if drawn or not figures else draw.EXTRA,
    )


def _study(name: str, analysis: Analysis, prefix: str) -> _Study:
    analysis = with_commands(analysis)
    levels = {finding.level for finding in analysis.findings}
    lead = lead_figures(analysis)
    found = sections(analysis)
    return _Study(
        name=name or title(analysis),
        prefix=prefix,
        analysis=analysis,
        verdict=verdict_sentences(analysis.verdict),
        brief=analysis.brief,
        how=measured_how(analysis),
        tiles=tiles(analysis),
        nothing=bool(analysis.failures) and not any(p.state == "ok" for p in analysis.points),
        lead=tuple(replace(figure, id=f"{prefix}{figure.id}") for figure in lead),
        asked=next((_apart(section, prefix) for section in found if section.id == "asked"), None),
        advice=advice(analysis),
        sections=tuple(_apart(_without(section, lead), prefix) for section in found if section.id != "asked"),
        overhead=_apart_table(overhead_table(analysis), prefix),
        source=_apart_table(source_table(analysis), prefix),
        levels=tuple(_level(level, analysis) for level in _LEVELS if level in levels),
        failures=analysis.failures[:_MOST_FAILURES],
        notes=_notes(analysis),
    )


def _notes(analysis: Analysis) -> dict[str, str]:
    """How many of each, so that nobody has to open a part to know that there is nothing in it."""
    levels = [finding.level for finding in analysis.findings]
    held = sum(threshold.holds is True for threshold in analysis.thresholds)
    return {
        "findings": ", ".join(f"{levels.count(one)} {LEVELS[one]}" for one in _LEVELS if one in levels),
        "failures": str(len(analysis.failures)),
        "thresholds": f"{held} of {len(analysis.thresholds)} hold",
    }


def _level(level: str, analysis: Analysis) -> _Level:
    found = [finding for finding in analysis.findings if finding.level == level]
    kinds: dict[str, list[Finding]] = {}
    for finding in found:
        kinds.setdefault(finding.id, []).append(finding)
    return _Level(level, len(found), tuple(_kind(name, own) for name, own in kinds.items()))


def _kind(name: str, found: Sequence[Finding]) -> _Kind:
    hints = dict.fromkeys((one.command, one.hint) for one in found if one.following)
    left = max(0, len(found) - _MOST_OF_A_KIND)
    return _Kind(name, tuple(found[:_MOST_OF_A_KIND]), left, tuple(hints))


def _without(section: Section, lead: Sequence[Figure]) -> Section:
    """The section without the figures that stand above already."""
    above = {figure.id for figure in lead}
    bars = next((figure for figure in lead if figure.id == "split-verdict"), None)
    whole = next((figure for figure in section.figures if figure.id == "split"), None)
    if bars is not None and whole is not None and _bars(bars) == _bars(whole):
        above.add("split")
    return replace(section, figures=tuple(figure for figure in section.figures if figure.id not in above))


def _bars(figure: Figure) -> int:
    """How many settings a chart of steps shows."""
    layers = figure.spec["layer"]
    assert isinstance(layers, list)
    return len(layers[1]["data"]["values"])


def _apart(section: Section, prefix: str) -> Section:
    return replace(
        section,
        id=f"{prefix}{section.id}",
        figures=tuple(replace(figure, id=f"{prefix}{figure.id}") for figure in section.figures),
        tables=tuple(_named(table, prefix) for table in section.tables),
    )


def _apart_table(table: Table | None, prefix: str) -> Table | None:
    return None if table is None else _named(table, prefix)


def _named(table: Table, prefix: str) -> Table:
    """The table under its own id on the page, and no longer than a page can bear."""
    rows, caption = table.rows, table.caption
    if len(rows) > _MOST_ROWS:
        caption += f" The first {_MOST_ROWS} of {len(rows):,} rows; paceline report --csv has all."
    return replace(table, id=f"{prefix}{table.id}", caption=caption, rows=rows[:_MOST_ROWS])


def _picture(figure: Figure) -> Markup:
    """The static picture, one image to a screen reader. vl-convert has escaped every text in it."""
    try:
        drawn = draw.svg(figure.spec, prefix=f"{figure.id}-")
    except PacelineError as problem:  # one picture less is no reason for no page
        return Markup("<p>{}; {}.</p>").format(problem.message, problem.hint)
    text = _FINE.sub(r"\1", _INNER_LABELS.sub("", drawn))
    label = Markup('<svg role="img" aria-label="{}"').format(visible(figure.title))
    return Markup(_SVG.sub(lambda _: str(label), text, count=1))


def _packed(text: str) -> str:
    """Compressed and in letters that are plain anywhere: less than half the size of the scripts themselves."""
    return b64encode(compress(text.encode(), mtime=0)).decode()


def _without_schema(spec: Spec) -> Spec:
    """The page asks no server, so it names none."""
    return {key: value for key, value in spec.items() if key != "$schema"}


def _copies(table: Table) -> dict[str, str]:
    unpadded = re.sub(" {2,}", " ", markdown_of(table))
    return {"Markdown": unpadded, "CSV": csv_of(table), "LaTeX": latex_of(table)}
