"""`paceline lab up`, `status`, `down` and `study`."""

from __future__ import annotations

import json as json_text
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from paceline.cli.measure import bench_of, measure
from paceline.cli.options.request import request, target_of
from paceline.core import units
from paceline.core.errors import Interrupted, UsageError
from paceline.core.units import duration_text
from paceline.launch.interpreter import interpreter
from paceline.links.probe import sweep_sizes
from paceline.plan import config
from paceline.plan.trials import plan_study
from paceline.records import Study
from paceline.run.probe import ProbeBench, ProbeOrder, run_probe
from paceline.store.atomic import make_folder, write_json
from paceline.store.paths import StudyFolder
from paceline.store.trial_files import read_results
from paceline.testbed.blueprint import Lab, lab_of, rate_words
from paceline.testbed.launcher import LabLauncher, rendezvous_in
from paceline.testbed.means import means
from paceline.testbed.owner import end_lab, keep, kept_labs, made, new_name, opened, sweep
from paceline.testbed.system import require_root

__all__ = ["lab"]

_SHAPE = "lab.json"  # in the study's folder: trials of one study come from one laboratory
_PROBE_BYTES, _PROBE_S = 8_000_000, 10.0
_ACTIONS = ("up", "status", "down", "study")


def lab(
    words: Annotated[
        list[str],
        typer.Argument(metavar="up|status|down|study [TARGET [-- SCRIPT ARGS]]", help="What to do."),
    ],
    hosts: Annotated[str | None, typer.Option(help="Hosts: 4, or for a study the counts 1,2,4.")] = None,
    link: Annotated[str | None, typer.Option(help="The rate of every host's link: 200mbit, 1gbit.")] = None,
    delay: Annotated[str | None, typer.Option(help="Delay from one host to another: 2ms.")] = None,
    cpu: Annotated[str | None, typer.Option(help="The share of a core that every host gets: 25%.")] = None,
    slow_host: Annotated[
        list[str] | None, typer.Option(metavar="HOST:SHARE", help="One host slower than the others: 3:50%.")
    ] = None,
    slow_link: Annotated[
        list[str] | None, typer.Option(metavar="HOST:RATE", help="One link slower than the others: 2:50mbit.")
    ] = None,
    workers_per_node: Annotated[
        str | None, typer.Option(help="study: workers on every host, which talk over its loopback.")
    ] = None,
    per_worker_batch: Annotated[str | None, typer.Option(help="study: per-worker batches.")] = None,
    batch_flag: Annotated[str | None, typer.Option(help="study: the script's flag for that batch.")] = None,
    steps: Annotated[int | None, typer.Option(help="study: measured steps of a run.")] = None,
    warmup: Annotated[int | None, typer.Option(help="study: steps before measuring.")] = None,
    repeats: Annotated[int | None, typer.Option(help="study: most runs of every setting.")] = None,
    timeout: Annotated[str | None, typer.Option(help="study: longest run.")] = None,
    hang: Annotated[str | None, typer.Option(help="study: longest time without a step.")] = None,
    python: Annotated[str | None, typer.Option(help="study: the Python that has the script's torch.")] = None,
    probe: Annotated[
        bool, typer.Option("--probe", help="study: probe the link between 2 hosts first, for projections.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="study: the folder.")] = None,
    retry_failed: Annotated[bool, typer.Option(help="study: repeat runs that failed.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="status, study: print JSON, and nothing else.")
    ] = False,
) -> None:
    """Several hosts on one machine, with links and CPU shares of your choice, to see what they do to a training.

    paceline lab up --hosts 4 --link 200mbit

    paceline lab study --hosts 1,2,4 --link 200mbit train.py -- --batch-size 32

    Needs root and Linux: hosts are network namespaces. `study` makes its laboratory and removes it; what `up` made
    stays until `down`.
    """
    action, *rest = words
    if action not in _ACTIONS:
        raise UsageError(f"lab {action!r} is none of {', '.join(_ACTIONS)}", hint="paceline lab up --hosts 4")
    require_root()
    for name in sweep():
        print(f"ended {name}: its owner is gone", file=sys.stderr)
    shape: dict[str, object] = {
        "link": link, "delay": delay, "cpu": cpu, "slow_hosts": slow_host or [], "slow_links": slow_link or [],
    }  # fmt: skip
    if action == "up":
        _up(_one(hosts), shape)
    elif action == "status":
        _status(json=json)
    elif action == "down":
        _down()
    else:
        asked: dict[str, object] = {
            "nodes": units.count_range(hosts) if hosts else None,
            "workers_per_node": units.count_range(workers_per_node) if workers_per_node else None,
            "per_worker_batch": config.numbers(per_worker_batch, flag="--per-worker-batch")
            if per_worker_batch
            else None,
            "steps": steps,
            "warmup": warmup,
            "repeats": repeats,
            "timeout_s": units.duration(timeout) if timeout else None,
            "hang_s": units.duration(hang) if hang else None,
            "python": None if python is None else interpreter(python),
        }
        folder, wanted = request(
            target_of(rest, module=None, start=None),
            {name: value for name, value in asked.items() if value is not None},
            out=out,
            flags={"batch_flag": batch_flag} if batch_flag else {},
        )
        wanted = config.with_args_batch(wanted)
        _study(folder, wanted, shape, probe=probe, retry_failed=retry_failed, json=json)


def lab_lines(lab: Lab) -> list[str]:
    """A lab that is up, as a person reads it: the whole, every host, and what it is made with."""
    way = f", {duration_text(lab.delay_s)} from host to host" if lab.delay_s else ""
    found = [f"{lab.name}: {len(lab.hosts)} hosts{way}"]
    for host in lab.hosts:
        share = "" if host.cores is None else f", {host.cores:.0%} of a core"
        found.append(f"  host {host.number}: {host.address}, link {rate_words(host.bits_per_s)}{share}")
    made_with = ", ".join(f"{name} by {what}" for name, what in means(lab).items())
    return [*found, f"  {made_with}"] if made_with else found


def _up(hosts: int, shape: Mapping[str, object]) -> None:
    lab = lab_of(new_name(), hosts=hosts, **shape)  # type: ignore[arg-type]  # the flags of `lab` are its own
    made(lab)
    keep(lab)
    print("\n".join(lab_lines(lab)))
    print(f"a shell on host 1: nsenter --net=/run/netns/{lab.hosts[0].namespace}")
    print("it stays until: paceline lab down")


def _status(*, json: bool) -> None:
    labs = kept_labs()
    if json:
        print(json_text.dumps([{**asdict(lab), "means": means(lab)} for lab in labs], indent=1))
        return
    for lab in labs:
        print("\n".join(lab_lines(lab)))
    if not labs:
        print("no laboratory is up")


def _down() -> None:
    labs = kept_labs()
    for lab in labs:
        ended = end_lab(lab.name)
        print(f"{lab.name}: removed" + (f", {ended} processes in it ended" if ended else ""))
    if not labs:
        print("no laboratory is up")


def _study(
    folder: StudyFolder,
    study: Study,
    shape: Mapping[str, object],
    *,
    probe: bool,
    retry_failed: bool,
    json: bool,
) -> None:
    if not study.nodes:
        raise UsageError("lab study was not told how many hosts to use", hint="--hosts 1,2,4")
    shape = _shape_of(folder, shape)
    hosts = max(2 if probe else 1, *study.nodes)
    lab = lab_of(new_name(), hosts=hosts, **shape)  # type: ignore[arg-type]  # as above
    study = replace(study, threads=study.threads or 1)
    bench = replace(
        bench_of(study, threads=study.threads or 1), launcher=LabLauncher(lab), rendezvous=rendezvous_in(lab)
    )
    with opened(lab):
        print("\n".join(lab_lines(lab)), file=sys.stderr)
        if probe:
            print("probing the link between 2 hosts", file=sys.stderr)
            tools = ProbeBench(
                bench.launcher, bench.python, bench.agent, bench.clock, folder.tag, bench.rendezvous
            )
            order = ProbeOrder(2, sweep_sizes(_PROBE_BYTES), nodes=2, seconds=_PROBE_S, device=False)
            run_probe(folder.root, order, bench=tools)
        try:
            held = read_results(folder)
            measure(
                folder, study, plan_study(study), held=held, bench=bench, retry_failed=retry_failed, json=json
            )
        except Interrupted as stopped:
            again = f"paceline lab study {shlex.quote(str(folder.root))}"
            raise Interrupted(stopped.message, hint=f"{again} goes on") from None


def _shape_of(folder: StudyFolder, asked: Mapping[str, object]) -> Mapping[str, object]:
    """The shape that the folder's trials were measured in; it is kept there, and another one is refused."""
    note = folder.root / _SHAPE
    if not note.exists():
        make_folder(folder.root)
        write_json(note, dict(asked))
        return asked
    held: dict[str, object] = json_text.loads(note.read_text(encoding="utf-8"))
    if any(asked.values()) and dict(asked) != held:
        raise UsageError(
            f"the runs in {folder.root} come from a laboratory of another shape: {_words(held)}",
            hint="give the new study its own folder with --out",
        )
    return held


def _words(shape: Mapping[str, object]) -> str:
    given = [f"{name.replace('_', ' ')} {value}" for name, value in shape.items() if value]
    return ", ".join(given) or "nothing shaped"


def _one(hosts: str | None) -> int:
    counts = units.count_range(hosts or "2")
    if len(counts) != 1:
        raise UsageError(f"--hosts {hosts}: a laboratory has one number of hosts", hint="--hosts 4")
    return counts[0]
