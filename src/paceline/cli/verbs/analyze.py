"""`paceline analyze`: a table measured anywhere, or a study folder -> the Analysis."""

from __future__ import annotations

import sys
import tomllib
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from paceline.analysis.cluster import cluster_from, price_from
from paceline.analysis.json_file import analysis_data
from paceline.analysis.question import Ask, Cluster
from paceline.analysis.table import settings_of, table_analysis
from paceline.cli.text.plan import print_json
from paceline.cli.text.table import table_text
from paceline.core.errors import NothingMeasured, TableError, UsageError
from paceline.core.units import count_range, duration
from paceline.data import shipped
from paceline.decide.recommend import Prices
from paceline.decide.verdict import unanswered
from paceline.links.probed import Probed
from paceline.records import Analysis
from paceline.table.read import read_settings, read_table

__all__ = ["analyze"]


ProbeFolder = Annotated[
    Path | None,
    typer.Option("--probe", metavar="FOLDER", help="What `paceline probe --out FOLDER` measured."),
]


Price = Annotated[
    str | None,
    typer.Option(
        help="What a device or node costs: 2.5/gpu-h, EUR 40/node-h.  [default: price in the cluster file]"
    ),
]


class TimeIs(StrEnum):
    """What a column that is only called time holds."""

    step = "step"
    epoch = "epoch"
    job = "job"


def analyze(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="TABLE|STUDY", help="A table (CSV, TSV, Markdown, text; - for stdin) or a study folder."
        ),
    ],
    fit_up_to: Annotated[
        int | None,
        typer.Option(min=1, help="Fit only on settings up to this many workers; the rest is held out."),
    ] = None,
    project: Annotated[str | None, typer.Option(help="Worker counts to project to: 8,16..1024.")] = None,
    at: Annotated[
        Path | None,
        typer.Option(help="A table of settings to project to (workers, nodes, per_worker_batch)."),
    ] = None,
    cluster: Annotated[
        Path | None, typer.Option(help="What is known of the machines and links (cluster.toml).")
    ] = None,
    probe: ProbeFolder = None,
    time: Annotated[
        TimeIs | None, typer.Option(help="What a column called only time or seconds holds.")
    ] = None,
    price: Price = None,
    deadline: Annotated[str | None, typer.Option(help="The training must end within: 8 h, 01:30:00.")] = None,
    budget: Annotated[float | None, typer.Option(help="The training may cost at most this much.")] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the analysis as JSON, and nothing else.")
    ] = False,
    html: Annotated[Path | None, typer.Option(help="Write the report page here.")] = None,
) -> None:
    """Speed-up, fit, projection with intervals or refusal, doubts and advice, from measurements."""
    machines = cluster_of(cluster)
    ask = ask_of(fit_up_to, project, at, prices_of(price, deadline, budget, None, machines))
    analysis, understood = analysis_of(source, ask=ask, cluster=machines, time=time, probe=probe)
    if html is not None:
        write_html(analysis, html, name=source.stem)
    if json:
        print_json(analysis_data(analysis))
    else:
        print(table_text(analysis, understood))
    if unanswered(analysis.verdict):
        raise NothingMeasured(
            f"{source} does not say how many workers to use ({analysis.verdict.reasons[0].id})",
            hint="the first lines above say what to mend, then run this again",
        )


def analysis_of(
    source: Path,
    *,
    ask: Ask,
    cluster: Cluster | None,
    time: TimeIs | None = None,
    probe: Path | None = None,
) -> tuple[Analysis, tuple[str, ...]]:
    """The Analysis of a table or of a study folder, and what was understood of the table.

    `probe`: a folder with probes of the same links, for a table, or for a study that has none of its own.
    """
    found: Probed | None = None
    if probe is not None:
        from paceline.cli.probed import probed_at  # only --probe needs the store's reader of probes

        found = probed_at(probe, cluster)
    if source.is_dir():
        from paceline.cli.text.answer import analysis_of_folder  # a study needs the store; a table does not
        from paceline.store.paths import StudyFolder
        from paceline.store.study_file import read_study

        folder = StudyFolder(source)
        asked = read_study(folder.study_toml)
        return analysis_of_folder(folder, asked, ask=ask, cluster=cluster, probed=found), ()
    table = read_table(text_of(source), time=None if time is None else time.value)
    named = {"table": str(source)}
    return table_analysis(table, ask=ask, cluster=cluster, source=named, probed=found), table.understood


def ask_of(fit_up_to: int | None, project: str | None, at: Path | None, prices: Prices) -> Ask:
    """What the options ask for."""
    return Ask(
        fit_up_to=fit_up_to,
        project_to=None if project is None else count_range(project),
        at=() if at is None else settings_of(read_settings(text_of(at))),
        prices=prices,
    )


def prices_of(
    price: str | None,
    deadline: str | None,
    budget: float | None,
    value: float | None,
    cluster: Cluster | None = None,
) -> Prices:
    """What resources cost and what is wanted; the price of the command line counts for more than the cluster's."""
    declared = None if cluster is None else cluster.price
    prices = price_from(price) if price is not None else declared or Prices()
    return replace(
        prices,
        deadline_s=None if deadline is None else duration(deadline),
        budget=budget,
        value_per_hour=value,
    )


def cluster_of(path: Path | None) -> Cluster | None:
    """The declared Cluster, or None."""
    if path is None:
        return None
    try:
        data = tomllib.loads(text_of(path))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(
            f"{path} is not TOML: {error}", hint="compare with docs/background/prediction.md"
        ) from None
    return cluster_from(data, shipped("links"))


def text_of(path: Path) -> str:
    """A whole text file, or standard input for `-`."""
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise TableError(f"{path} is not UTF-8 text", hint="save the table as CSV in UTF-8") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="check the path") from None


def write_html(analysis: Analysis, path: Path, *, name: str) -> None:
    """The report page of an Analysis."""
    from paceline.report.page import page  # the renderer costs a second; only --html needs it

    path.write_text(page([(name, analysis)]), encoding="utf-8")
    print(f"report: {path}", file=sys.stderr)
