"""`paceline analyze`: a table measured anywhere, or a study folder -> the Analysis."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from paceline.analysis.json_file import analysis_data
from paceline.cli.text.plan import print_json
from paceline.cli.text.table import table_text
from paceline.core.errors import NothingMeasured
from paceline.core.units import count_range
from paceline.decide.verdict import unanswered
from paceline.records import Analysis
from paceline.source.anything import analysis_at
from paceline.source.declared import ask_of, cluster_of, prices_of
from paceline.table.read import Times

__all__ = ["analyze"]


ProbeFolder = Annotated[
    Path | None,
    typer.Option("--probe", metavar="FOLDER", help="What `paceline probe --out FOLDER` measured."),
]


Price = Annotated[
    str | None,
    typer.Option(
        help="What a worker or node costs: EUR 2.5/gpu-h, 0.04/worker-h, 40/node-h.  [default: the cluster file's]"
    ),
]


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
        Times | None, typer.Option(help="What a column called only time or seconds holds.")
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
    counts = None if project is None else count_range(project)
    ask = ask_of(fit_up_to, counts, at, prices_of(price, deadline, budget, None, machines))
    analysis = analysis_at(source, ask=ask, cluster=machines, time=time, probe=probe)
    if html is not None:
        write_html(analysis, html, name=source.stem)
    if json:
        print_json(analysis_data(analysis))
    else:
        print(table_text(analysis))
    if unanswered(analysis.verdict):
        raise NothingMeasured(
            f"{source} does not say how many workers to use ({analysis.verdict.reasons[0].id})",
            hint="the first lines above say what to mend, then run this again",
        )


def write_html(analysis: Analysis, path: Path, *, name: str) -> None:
    """The report page of an Analysis."""
    from paceline.report.page import page  # the renderer costs a second; only --html needs it

    path.write_text(page([(name, analysis)]), encoding="utf-8")
    print(f"report: {path}", file=sys.stderr)
