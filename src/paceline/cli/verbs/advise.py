"""`paceline advise`: how many workers, for which goal, at what price, and the next measurement worth making."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from paceline.analysis.json_file import analysis_data
from paceline.cli.text.plan import print_json
from paceline.cli.text.table import advice_text
from paceline.cli.verbs.analyze import Price, ProbeFolder
from paceline.core.units import count_range
from paceline.decide.sentence import verdict_text
from paceline.records import Analysis
from paceline.source.anything import analysis_at
from paceline.source.declared import ask_of, cluster_of, prices_of

__all__ = ["advise"]


def advise(
    source: Annotated[Path, typer.Argument(metavar="TABLE|STUDY", help="What was measured.")],
    workers: Annotated[
        str | None, typer.Option(help="Candidates beyond what was measured: 8,16..64.")
    ] = None,
    cluster: Annotated[
        Path | None, typer.Option(help="What is known of the machines and links (cluster.toml).")
    ] = None,
    probe: ProbeFolder = None,
    price: Price = None,
    deadline: Annotated[str | None, typer.Option(help="The training must end within: 8 h, 01:30:00.")] = None,
    budget: Annotated[float | None, typer.Option(help="The training may cost at most this much.")] = None,
    value: Annotated[
        float | None, typer.Option(help="What an hour saved is worth, in the currency of the price.")
    ] = None,
    watts: Annotated[float | None, typer.Option(help="Power of one worker, for the energy.")] = None,
    epochs: Annotated[
        float | None, typer.Option(min=0.001, help="Epochs of the training, where the time of one is known.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the analysis as JSON, and nothing else.")
    ] = False,
) -> None:
    """The fastest, the cheapest, the knee, by deadline and budget, each with its condition."""
    machines = cluster_of(cluster)
    prices = replace(prices_of(price, deadline, budget, value, machines), worker_watts=watts, epochs=epochs)
    counts = None if workers is None else count_range(workers)
    analysis = analysis_at(source, ask=ask_of(None, counts, None, prices), cluster=machines, probe=probe)
    if json:
        print_json(analysis_data(analysis))
        return
    print(verdict_text(analysis.verdict))
    print()
    print(advice_text(analysis.recommendations) or _no_advice(analysis))


def _no_advice(analysis: Analysis) -> str:
    """Why nothing is advised, and what would change that."""
    refused = next(iter(analysis.refusals), None)
    if refused is None:
        return "No advice: fewer than two comparable settings were measured."
    return f"No advice: {refused.reason}\n  try: {refused.would_help}"
