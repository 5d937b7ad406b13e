"""One probe from an empty folder to its commit mark, through whichever launcher starts trials."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.core.errors import NothingMeasured
from paceline.launch.command import Rendezvous
from paceline.launch.launcher import Launch, Launcher
from paceline.launch.probe import probe_command, probe_trial
from paceline.records import Probe, Trial
from paceline.run.clock import Clock
from paceline.store.probe_files import commit_probe, prepare_probe, read_probe
from paceline.store.telemetry_files import lost_nodes
from paceline.store.worker_files import text_tail

__all__ = ["ProbeBench", "ProbeOrder", "run_probe"]

_POLL_S = 0.1
_START_S = 180.0  # importing torch on every worker, on a machine that is busy
_SLACK = 3.0  # times the seconds asked for: the last pass, and sizes that were slower than expected


@dataclass(frozen=True, slots=True)
class ProbeOrder:
    """What one launch of a probe measures."""

    workers: int
    sizes: tuple[int, ...]
    nodes: int = 1
    backends: tuple[str, ...] = ("gloo",)
    seconds: float = 20.0
    device: bool = True
    threads: int = 1

    @property
    def name(self) -> str:
        return f"n{self.nodes}-w{self.workers}"


@dataclass(frozen=True, slots=True)
class ProbeBench:
    """What probes are run with: the launcher, the interpreter, the agent, the clock, and where nodes meet."""

    launcher: Launcher
    python: str
    agent: Path
    clock: Clock
    tag: str  # of the study, or of the folder
    rendezvous: Callable[[Trial], Rendezvous] | None = None
    notes: tuple[str, ...] = ()  # what is to be known about the nodes


def run_probe(
    root: Path, order: ProbeOrder, *, bench: ProbeBench, specs: Mapping[str, str] | None = None
) -> Probe:
    """Launch, wait, end and keep one probe as ROOT/probe/n1-w2. It leaves no process, whether it returns or raises."""
    folder = root / "probe" / order.name
    beside = prepare_probe(folder, agent=bench.agent)
    started = bench.clock.date()
    meet = None
    if order.nodes > 1 and bench.rendezvous is not None:
        meet = bench.rendezvous(probe_trial(order.workers, order.nodes))
    command = probe_command(
        str(beside.absolute()),
        order.sizes,
        workers=order.workers,
        nodes=order.nodes,
        python=bench.python,
        tag=f"{bench.tag}probe-{order.name}",
        backends=order.backends,
        seconds=order.seconds,
        device=order.device,
        threads=order.threads,
        environment=os.environ,
        rendezvous=meet,
    )
    log = beside / "launcher.log"
    with open(log, "wb") as output:
        launch = bench.launcher.start(command, output)
        try:
            ended = _waited(launch, bench.clock, _START_S + _SLACK * order.seconds)
        finally:
            launch.end()
    lost = lost_nodes(beside)
    if lost:
        ended = "; ".join(lost)
    asked = {
        "workers": order.workers,
        "nodes": order.nodes,
        "backends": list(order.backends),
        "notes": list(bench.notes) if order.nodes > 1 else [],
    }
    if not _measured(beside):
        raise NothingMeasured(
            f"the probe of {order.workers} workers measured nothing: {ended or 'it wrote no time'}"
            + ("" if lost else f"; {_last(log)}"),
            hint="let the node join again, and probe again" if lost else f"read {log}",
        )
    commit_probe(beside, folder, {**asked, "started": started, "ended": ended, "specs": dict(specs or {})})
    return read_probe(folder)


def _waited(launch: Launch, clock: Clock, longest_s: float) -> str | None:
    """How it ended, where it did not end well."""
    begun = clock.monotonic_s()
    while (code := launch.exit_code()) is None:
        if clock.monotonic_s() - begun > longest_s:
            return f"no end after {longest_s:.0f} s"
        clock.pause(_POLL_S)
    return None if code == 0 else f"exit code {code}"


def _measured(folder: Path) -> bool:
    """Whether there is anything to keep: times of a collective, or rates of a device."""
    if not (folder / "probe.jsonl").exists():
        return False
    probe = read_probe(folder)
    return bool(probe.times or probe.devices)


def _last(log: Path) -> str:
    """The line of the log that says most: the last that names an error, else the last."""
    lines: Sequence[str] = [line.strip() for line in text_tail(log, most=20_000).splitlines() if line.strip()]
    told = [line for line in lines if "Error" in line and "ChildFailedError" not in line]
    return (told or lines or ["the launcher said nothing"])[-1][:300]
