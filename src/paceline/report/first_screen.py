"""The first screen of a report as a piece of HTML that a notebook shows: verdict, numbers, charts, findings."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from paceline.core.words import LEVELS
from paceline.decide.sentence import verdict_sentences
from paceline.records import Analysis
from paceline.report.charts import draw
from paceline.report.escape import visible
from paceline.report.lead import lead_figures, tiles

__all__ = ["first_screen"]

_FINDINGS = 3


def first_screen(analysis: Analysis, *, name: str = "") -> str:
    """No script, no outer page; without vl-convert no charts."""
    environment = Environment(
        loader=PackageLoader("paceline.report"), autoescape=True, undefined=StrictUndefined
    )
    environment.filters["visible"] = visible
    charts = lead_figures(analysis) if draw.can_draw() else ()
    return environment.get_template("first_screen.html").render(
        name=name,
        verdict=verdict_sentences(analysis.verdict),
        tiles=tiles(analysis),
        charts=[(f.title, Markup(draw.svg(f.spec, prefix=f"{f.id}-"))) for f in charts],
        findings=[(LEVELS[one.level], one.sentence, one.following) for one in analysis.findings[:_FINDINGS]],
        left=max(0, len(analysis.findings) - _FINDINGS),
    )
