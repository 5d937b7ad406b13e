"""What a study or a table says, in the hands of a program or a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.analysis.json_file import analysis_data
from paceline.api.frames import Kind, frame, rows
from paceline.core.errors import UsageError
from paceline.decide.sentence import verdict_text
from paceline.records import (
    Analysis,
    Finding,
    Profile,
    Projection,
    Recommendation,
    Refusal,
    Verdict,
)
from paceline.report.charts import draw
from paceline.report.document import Figure, Spec
from paceline.report.first_screen import first_screen
from paceline.report.lead import lead_figures
from paceline.report.page import page
from paceline.report.sections import sections
from paceline.store.atomic import write_bytes, write_text

__all__ = ["Picture", "Result"]


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart: shown as it is by a notebook, or saved as .svg, .png, .pdf or .json (its Vega-Lite specification)."""

    name: str
    title: str
    caption: str
    spec: Spec

    def svg(self) -> str:
        """The picture as SVG."""
        return draw.svg(self.spec)

    def save(self, path: str | Path) -> Path:
        """Write it in the form that the name's end asks for."""
        where = Path(path)
        if where.suffix == ".svg":
            write_text(where, self.svg())
        elif where.suffix in _DRAWN:
            write_bytes(where, _DRAWN[where.suffix](self.spec))
        else:
            raise UsageError(f"{where} is no picture", hint="end its name in .svg, .png or .pdf")
        return where

    def _repr_svg_(self) -> str:
        return self.svg()


_DRAWN = {".png": draw.png, ".pdf": draw.pdf}


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """An Analysis with ways to look at it. In a notebook it shows its first screen.

    >>> found = load("tests/recorded/mnist-1-2")
    >>> found.verdict.answer, found.verdict.workers
    ('use', 2)
    >>> [point.point.workers for point in found.points]
    [1, 2]
    >>> found.points[1].step_s.low < found.points[1].step_s.value < found.points[1].step_s.high
    True
    """

    analysis: Analysis
    name: str = ""
    origin: object = None  # what it was made from: a path, a DataFrame, rows

    @property
    def verdict(self) -> Verdict:
        """The answer, its gain and its reasons."""
        return self.analysis.verdict

    @property
    def points(self) -> tuple[Profile, ...]:
        """What was measured, setting by setting."""
        return self.analysis.points

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the checks say, worst first."""
        return self.analysis.findings

    @property
    def projections(self) -> tuple[Projection, ...]:
        """What was predicted, with 90% intervals."""
        return self.analysis.projections

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """What was not predicted, and what would help."""
        return self.analysis.refusals

    @property
    def recommendations(self) -> tuple[Recommendation, ...]:
        """One setting for every goal: fastest, cheapest, best value."""
        return self.analysis.recommendations

    def to_dict(self) -> dict[str, object]:
        """What `--json` prints."""
        return analysis_data(self.analysis)

    def to_rows(self, what: Kind = "points") -> list[dict[str, object]]:
        """A plain row for every point, projection or finding; of an interval also its ends, as …_low and …_high.

        >>> load("tests/recorded/mnist-1-2").to_rows()[0]["workers"]
        1
        """
        return rows(self.analysis, what)

    def to_dataframe(self, what: Kind = "points") -> object:
        """The same as a DataFrame of pandas, or of polars where pandas is not installed."""
        return frame(self.to_rows(what))

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the charts that there are."""
        return tuple(figure.id for figure in self._figures())

    def figure(self, name: str) -> Picture:
        """A chart by its name, or by how it begins.

        >>> load("tests/recorded/mnist-1-2").figure("speedup").title
        'Speed-up, weak scaling'
        """
        found = self._figures()
        same = [one for one in found if one.id == name] or [one for one in found if one.id.startswith(name)]
        if not same:
            known = ", ".join(figure.id for figure in found) or "none"
            raise UsageError(f"there is no figure {name!r}", hint=f"those that there are: {known}")
        one = same[0]
        return Picture(one.id, one.title, one.whole_caption, one.spec)

    def report(self, path: str | Path) -> Path:
        """Write the page that `paceline report` makes."""
        where = Path(path)
        write_text(where, page([(self.name, self.analysis)]))
        return where

    def _figures(self) -> Sequence[Figure]:
        found = [*lead_figures(self.analysis), *(f for part in sections(self.analysis) for f in part.figures)]
        return tuple({figure.id: figure for figure in found}.values())

    def __str__(self) -> str:
        return verdict_text(self.verdict)

    def __repr__(self) -> str:
        return f"<Result {self.name}: {self}>" if self.name else f"<Result: {self}>"

    def _repr_html_(self) -> str:
        return first_screen(self.analysis, name=self.name)
