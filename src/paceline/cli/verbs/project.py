"""`paceline project`: what workers that were not measured would give, with intervals, or a refusal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from paceline.analysis.json_file import analysis_data
from paceline.cli.text.plan import print_json
from paceline.cli.text.table import answers_text
from paceline.cli.verbs.analyze import ProbeFolder
from paceline.core.units import bytes_of, count_range, percent_text
from paceline.decide.recommend import Prices
from paceline.predict.reliability import Checkpointing, failure_rate, goodput_ratio
from paceline.predict.whatif import change_from
from paceline.source.anything import analysis_at
from paceline.source.declared import ask_of, cluster_of

__all__ = ["project"]

_MANY = 256  # from here on failures are worth a word


def project(
    source: Annotated[Path, typer.Argument(metavar="TABLE|STUDY", help="What was measured.")],
    workers: Annotated[str, typer.Option(help="Worker counts to project to: 2..64, 8,16..1024.")],
    cluster: Annotated[
        Path | None, typer.Option(help="What is known of the machines and links (cluster.toml).")
    ] = None,
    probe: ProbeFolder = None,
    fit_up_to: Annotated[
        int | None, typer.Option(min=1, help="Fit only on settings up to this many workers.")
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHANGE",
            help="Project with a change: link=2x, bytes=0.5, bucket=2x, accumulate=4, workers-per-node=4, sync-bn=53, "
            "fsdp, power-sgd=4@512x512. May be given several times.",
        ),
    ] = None,
    device_memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Say what fits into this memory of a worker: 80GB.")
    ] = None,
    checkpoint_s: Annotated[
        float, typer.Option(min=0.001, help="Seconds that a checkpoint blocks training.")
    ] = 60.0,
    restart_s: Annotated[float, typer.Option(min=0.0, help="Seconds that a restart takes.")] = 600.0,
    json: Annotated[
        bool, typer.Option("--json", help="Print the analysis as JSON, and nothing else.")
    ] = False,
) -> None:
    """Project a table or a study to other worker counts; what would be a guess is refused with a reason."""
    ask = ask_of(fit_up_to, count_range(workers), None, Prices())
    size = bytes_of(device_memory) if device_memory is not None else None
    ask = replace(ask, change=change_from(what_if or []), device_bytes=size)
    analysis = analysis_at(source, ask=ask, cluster=cluster_of(cluster), probe=probe)
    if json:
        print_json(analysis_data(analysis))
        return
    if what_if:
        print(f"What if: {', '.join(what_if)}")
    print("\n".join(answers_text(replace(analysis, recommendations=(), findings=()))).lstrip("\n"))
    rate = failure_rate()
    for count in sorted({p.workers for p in analysis.projections if p.workers >= _MANY}):
        plan = Checkpointing(checkpoint_s, restart_s)
        good = goodput_ratio(count, plan, rate_per_hour=rate.value)
        worst = goodput_ratio(count, plan, rate_per_hour=rate.high or rate.value)
        print(
            f"At {count} workers failures and checkpoints leave {percent_text(good)} of the time, "
            f"{percent_text(worst)} at the worst plausible rate of failures."
        )
