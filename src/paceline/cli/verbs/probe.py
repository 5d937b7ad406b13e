"""`paceline probe`: what the links between workers and their devices do, measured with none of the user's code."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from paceline.cli.gather import JOIN_WAIT_S, Join, JoinWait, assembled, opened, say_ways
from paceline.cli.options.probe import Asked, orders_of
from paceline.cli.slurm.allocation import launcher_here, nodes_seen
from paceline.cli.slurm.options import inside_allocation
from paceline.cli.text.answer import finding_lines
from paceline.cli.text.plan import print_json
from paceline.cli.text.probe import probe_lines
from paceline.core.errors import Interrupted, NothingMeasured, PacelineError, UsageError
from paceline.core.json_data import plain_data
from paceline.core.units import bytes_text, count_range, duration, duration_text
from paceline.core.words import LEVELS
from paceline.data import shipped
from paceline.launch import inspection
from paceline.launch.interpreter import interpreter, package_folder
from paceline.launch.local import LocalLauncher
from paceline.launch.nodes.launcher import NodesLauncher
from paceline.launch.slurm.launcher import SlurmLauncher
from paceline.links.nccl import read_nccl_tests
from paceline.links.probed import Probed
from paceline.links.spec import specs_from
from paceline.plan.preflight import Facts, preflight_findings
from paceline.predict.after_wait import after_wait_rows
from paceline.predict.jitter import jitter_rows
from paceline.records import Allocation, Probe, Study, Workload
from paceline.run.clock import SystemClock
from paceline.run.probe import ProbeBench, ProbeOrder, run_probe
from paceline.source.probes import brought_together
from paceline.store.atomic import make_folder, write_json
from paceline.store.lock import locked
from paceline.store.paths import StudyFolder
from paceline.store.probe_files import read_probe, read_probes, store_nccl_tests
from paceline.store.study_file import read_study
from paceline.store.trial_files import read_results

__all__ = ["probe"]

_START_S = 10.0  # torch is imported, devices are measured


def probe(
    study: Annotated[
        Path | None, typer.Argument(metavar="STUDY", help="The study that the probe is for and stays with.")
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option(help="Worker counts: 2,4. Two counts separate a call's fixed cost from its hops."),
    ] = None,
    nodes: Annotated[
        str | None, typer.Option(help="Node counts, instead of --workers: 2 or 1,2; the others join.")
    ] = None,
    workers_per_node: Annotated[
        int | None, typer.Option(min=1, help="Workers on every node.  [default: the study's, or 1]")
    ] = None,
    join: Join = None,
    join_wait: JoinWait = None,
    backend: Annotated[
        str | None, typer.Option(help="gloo, nccl or both.  [default: the study's, or gloo]")
    ] = None,
    size: Annotated[
        str | None,
        typer.Option("--bytes", help="The largest message: 200MB.  [default: twice the gradients, or 64MB]"),
    ] = None,
    seconds: Annotated[str, typer.Option(help="Measuring time for every worker count.")] = "20s",
    device: Annotated[
        bool, typer.Option(help="Measure devices, and communication beside computing, too.")
    ] = True,
    spec: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[CLASS=]KIND|RATE",
            help="What a link promises: between=25gbit, inside=nvlink4, tcp@50gbit.",
        ),
    ] = None,
    read: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Read the output of nccl-tests (all_reduce_perf …) instead of measuring."
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="CPU threads per worker.  [default: cores / workers]")
    ] = None,
    python: Annotated[str | None, typer.Option(help="The Python that has torch.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Keep the probe in this study or folder, or its numbers in FILE.json.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the numbers as JSON, and nothing else.")
    ] = False,
) -> None:
    """Measure the links between workers: latency, bandwidth, bus bandwidth by size; and what their devices do.

    paceline probe --workers 2,4

    With a STUDY the probe stays in it, and its projections use what was measured.
    """
    home, file = _places(study, out)
    asked = read_study(StudyFolder(home).study_toml) if home is not None and _is_study(home) else None
    specs = {str(link): text for link, text in specs_from(spec or [], shipped("links")).items()}
    alone = False
    with _folder(home) as root:
        if read is not None:
            probes = [_read(read, root, workers=workers, nodes=nodes, specs=specs)]
        else:
            options = Asked(workers, nodes, workers_per_node, backend, size, seconds, device, threads)
            results = read_results(StudyFolder(root)) if asked is not None else ()
            orders = orders_of(options, asked, results)
            wait_s = duration(join_wait) if join_wait else JOIN_WAIT_S
            from paceline.cli.measure import (
                terminated_like_interrupted,  # here: it imports what a study needs
            )

            with (
                terminated_like_interrupted(),
                _bench(root, orders, study=asked, python=python, join=join, wait_s=wait_s) as bench,
            ):
                probes = _measure(root, orders, bench=bench, specs=specs, kept=home is not None)
            alone = all(order.workers == 1 for order in orders)
        if home is not None:
            probes = list(read_probes(root))
        found = brought_together(probes)
        _show(found, home=home, file=file, json=json)
    if not (found.links or (alone and found.devices)):
        raise NothingMeasured(
            f"no link was measured: {'; '.join(found.notes) or 'the sweep allows no fit'}",
            hint="paceline probe --backend gloo, or a larger --bytes",
        )


def _places(study: Path | None, out: Path | None) -> tuple[Path | None, Path | None]:
    """The folder that keeps the probe, and the file for its numbers."""
    if study is not None and not _is_study(study):
        raise UsageError(f"{study} is not a study folder", hint="--out FOLDER keeps a probe anywhere")
    if out is None:
        return study, None
    if out.suffix == ".json" and not out.is_dir():
        return study, out
    if study is not None:
        raise UsageError(
            f"the probe stays in {study}; --out {out} is another folder", hint="give one of them"
        )
    return out, None


def _is_study(folder: Path) -> bool:
    return StudyFolder(folder).study_toml.is_file()


@contextmanager
def _folder(home: Path | None) -> Iterator[Path]:
    """The folder to probe in, held against other desks; a temporary one where nothing is to be kept."""
    if home is None:
        with tempfile.TemporaryDirectory(prefix="paceline-probe-") as temporary:
            yield Path(temporary)
        return
    make_folder(home)
    with locked(StudyFolder(home)):
        yield home


@contextmanager
def _bench(
    root: Path,
    orders: Sequence[ProbeOrder],
    *,
    study: Study | None,
    python: str | None,
    join: str | None,
    wait_s: float,
) -> Iterator[ProbeBench]:
    """What the probes are run with; where they need several nodes, those of the allocation, or those that join."""
    bench = ProbeBench(
        LocalLauncher(),
        _python(study, python),
        package_folder("paceline_agent"),
        SystemClock(),
        tag=StudyFolder(root).tag,
    )
    nodes = max(order.nodes for order in orders)
    if len(orders) > 1 or nodes > 1:
        _say(
            f"{len(orders)} probe{'s' if len(orders) > 1 else ''}, about {duration_text(sum(map(_expected_s, orders)))}"
        )
    queued = study is not None and study.slurm is not None
    steps = launcher_here(study) if nodes > 1 or queued else None
    if steps is not None:
        yield _in_allocation(root, orders, steps, bench)
        return
    if queued:
        raise UsageError(
            "this study takes its nodes from Slurm, and this is no allocation",
            hint=f"salloc --nodes {nodes} paceline probe {shlex.quote(str(root))}",
        )
    if nodes == 1:
        yield bench
        return
    with opened(join, what="probe") as gate:
        asked = _asked(orders, bench)
        facts = assembled(gate, nodes, asked, wait_s=wait_s, what="probe")
        notes = _judged(orders, facts, slurm=None)
        say_ways(facts)
        launcher = NodesLauncher(gate, None, _say, lambda member: None)
        yield replace(bench, launcher=launcher, rendezvous=launcher.rendezvous, notes=notes)


def _in_allocation(
    root: Path, orders: Sequence[ProbeOrder], steps: SlurmLauncher, bench: ProbeBench
) -> ProbeBench:
    """The bench of probes as steps of this allocation, after the same look at its nodes as a study takes."""
    nodes = max(order.nodes for order in orders)
    if len(steps.nodes) < nodes:
        has = f"{len(steps.nodes)} node{'' if len(steps.nodes) == 1 else 's'}"
        raise UsageError(
            f"job {steps.asked} has {has}, and {nodes} are to be probed", hint=f"salloc --nodes {nodes}"
        )
    facts = nodes_seen(steps, _asked(orders, bench).subject, folder=root)
    notes = _judged(orders, facts[:nodes], slurm=Allocation()) if facts else ()
    return replace(bench, launcher=steps, rendezvous=steps.rendezvous, notes=notes)


def _python(study: Study | None, asked: str | None) -> str:
    """The interpreter of the probes: as asked, else the study's; one inside a container cannot be looked for here."""
    own = asked or (study.python if study is not None else None)
    inside = study is not None and study.slurm is not None and study.slurm.container is not None
    return own or "python3" if inside and inside_allocation() else interpreter(own)


def _asked(orders: Sequence[ProbeOrder], bench: ProbeBench) -> inspection.Asked:
    """What nodes are asked about: no script, and devices where a backend needs them."""
    devices = any("nccl" in order.backends for order in orders)
    return inspection.Asked(bench.python, None, os.sep, devices=devices)


def _judged(
    orders: Sequence[ProbeOrder], facts: Sequence[Facts], *, slurm: Allocation | None
) -> tuple[str, ...]:
    """What a look at the nodes makes of the probes to come, said and kept with them; what is void ends it here."""
    largest = max(orders, key=lambda order: order.workers)
    as_study = Study(
        Workload("workload", "probe"),
        workers=(largest.workers,),
        workers_per_node=(largest.workers // largest.nodes,),
        nodes=(largest.nodes,),
        threads=largest.threads,
        slurm=slurm,
    )
    findings = preflight_findings(as_study, facts)
    for finding in findings:
        if finding.level == "void":
            raise PacelineError(f"nothing was started: {finding.message}", hint=finding.following)
        _say(
            f"{LEVELS[finding.level]}: {finding.message}"
            + (f"\n  try: {finding.following}" if finding.following else "")
        )
    return tuple(finding.message for finding in findings if finding.level == "doubt")


def _measure(
    root: Path, orders: Sequence[ProbeOrder], *, bench: ProbeBench, specs: dict[str, str], kept: bool
) -> list[Probe]:
    probes = []
    try:
        bench.launcher.end_leftovers(bench.tag)  # of a desk that was killed
        for order in orders:
            _say(f"probing {_what(order)}, about {duration_text(_expected_s(order))} …")
            probes.append(run_probe(root, order, bench=bench, specs=specs))
    except NothingMeasured as problem:
        if kept:
            raise
        raise NothingMeasured(problem.message, hint="--out FOLDER keeps all that the workers said") from None
    except KeyboardInterrupt:
        raise Interrupted(
            "stopped; probes that were complete are kept", hint="paceline probe again"
        ) from None
    return probes


def _what(order: ProbeOrder) -> str:
    """2 workers on 2 nodes over gloo, 1 kB to 64.0 MB"""
    if order.workers == 1:
        return "the device of one worker"
    where = f" on {order.nodes} nodes" if order.nodes > 1 else ""
    return f"{order.workers} workers{where} over {', '.join(order.backends)}, 1 kB to {bytes_text(order.sizes[-1])}"


def _expected_s(order: ProbeOrder) -> float:
    """The sweep, a quarter of it for computing alone, and over gloo another for exchange beside computing."""
    computing = 0.25 * (1 + ("gloo" in order.backends)) if order.device else 0.0
    return (order.seconds * (1.0 + computing) if order.workers > 1 else 0.0) + _START_S


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _read(path: Path, root: Path, *, workers: str | None, nodes: str | None, specs: dict[str, str]) -> Probe:
    """What nccl-tests printed, kept as it is. --workers and --nodes say what the text does not."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="check the path") from None
    count = count_range(workers)[-1] if workers else None
    read_nccl_tests(text, workers=count, source=path.name)  # refused before anything is kept
    name = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in path.stem) or "stdin"
    hosts = count_range(nodes)[-1] if nodes else None
    asked = {"source": path.name, "workers": count, "nodes": hosts, "specs": specs}
    folder = root / "probe" / f"read-{name}"
    store_nccl_tests(text, folder, asked)
    return read_probe(folder)


def _show(found: Probed, *, home: Path | None, file: Path | None, json: bool) -> None:
    data = {
        "format": 1,
        "links": plain_data(found.links),
        "devices": plain_data(found.devices),
        "steady": jitter_rows(found.jitter),
        "resumed": after_wait_rows(found.jitter),
        "notes": list(found.notes),
        "findings": plain_data(found.findings),
        "folder": None if home is None else str(home / "probe"),
    }
    if file is not None:
        write_json(file, data)
    if json:
        print_json(data)
        return
    print("\n".join(probe_lines(found.links, found.devices, found.jitter)))
    for note in found.notes:
        print(f"note   {note}")
    for line in finding_lines(found.findings, folder=str(home or "STUDY")):
        print(line)
    if home is not None and _is_study(home):
        print(f"\nKept in {home / 'probe'}; projections use it: paceline project {home} --workers 8,16")
    elif home is not None or file is not None:
        print(f"\nKept in {file or home}")
