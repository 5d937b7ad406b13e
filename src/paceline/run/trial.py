"""One trial from an empty folder to its commit mark."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from paceline.launch.command import Command, Rendezvous, trial_command
from paceline.launch.launcher import Launcher
from paceline.launch.logs import shorten, thin
from paceline.launch.processes import kernel_oom_kills
from paceline.launch.telemetry import Sampler
from paceline.records import Study, Trial, TrialResult
from paceline.run.classify import Evidence, classify
from paceline.run.clock import Clock
from paceline.run.watch import Limits, Watched, watch
from paceline.store.git_state import script_sha256
from paceline.store.paths import StudyFolder
from paceline.store.telemetry_files import lost_nodes, telemetry
from paceline.store.trial_files import commit, prepare, write_config_copies
from paceline.store.worker_files import (
    Heartbeat,
    ended,
    failures,
    look_again,
    outputs,
    stacks,
    standings,
    text_tail,
    written,
)

__all__ = ["Bench", "run_trial", "trial_command_at"]

_LOG = "launcher.log"
_LOOK_S = 0.5
_FAILED_LAG_S = 3.0
# what Slurm says of a step on any node; the kernel's own count is that of this node
_SLURM_MEMORY_KILL = re.compile(r"(?i)oom[-_ ]kill event")


@dataclass(frozen=True, slots=True)
class Bench:
    """What trials are run with: the launcher, the interpreter, the agent, and the clock."""

    launcher: Launcher
    python: str
    threads: int
    agent: Path
    workloads: str | None  # the folder that holds our workloads, when one of them is studied
    clock: Clock
    rendezvous: Callable[[Trial], Rendezvous] | None = None  # where the nodes of a trial meet
    refusal: Callable[[Trial], str | None] | None = None  # why a trial cannot be started now: nodes, devices
    left_out: frozenset[str] = frozenset()  # points that cannot run on these nodes at all: not waited for
    lag_s: float = 0.0  # how late this desk may see what workers on other machines wrote


def trial_command_at(folder: StudyFolder, study: Study, trial: Trial, bench: Bench) -> Command:
    """The command of a trial of the study in this folder."""
    return trial_command(
        study,
        trial,
        trial_dir=str(folder.trial(trial.id).absolute()),
        tag=folder.tag + trial.id,
        python=bench.python,
        threads=bench.threads,
        environment=os.environ,
        rendezvous=bench.rendezvous(trial) if bench.rendezvous and trial.point.nodes > 1 else None,
    )


def run_trial(
    folder: StudyFolder,
    study: Study,
    trial: Trial,
    *,
    bench: Bench,
    stepped: Callable[[tuple[Heartbeat, ...]], None],
) -> TrialResult:
    """Launch, watch, end, judge and commit one trial. It leaves no process, whether it returns or raises."""
    # a copy, not a search path: the folder beside it may hold another torch than the script's interpreter
    own = [Path(bench.workloads) / "paceline_workloads"] if bench.workloads else []
    horovod = bench.agent.with_name("paceline_horovod")  # beside the agent, for scripts that import horovod
    path = prepare(folder, trial, packages=[bench.agent, *([horovod] if horovod.is_dir() else []), *own])
    started = bench.clock.date()
    absent = _absent(study)
    if absent is not None:
        result = TrialResult(trial, "crashed", absent, (), 0.0)
        return commit(folder, result, started=started)
    write_config_copies(study, trial.point, path)
    command = trial_command_at(folder, study, trial, bench)
    digest = script_sha256(study)
    limits = Limits(study.timeout_s, study.hang_s, bench.lag_s)
    kills = kernel_oom_kills()
    sampler = Sampler(path, tag=command.tag, node=0)

    def looked(beats: tuple[Heartbeat, ...]) -> None:
        sampler.look((beat.rank, beat.pid) for beat in beats)
        thin(path)
        stepped(beats)

    with open(path / _LOG, "wb") as output:
        launch = bench.launcher.start(command, output)
        try:
            watched = watch(
                launch, path, workers=trial.point.workers, limits=limits, clock=bench.clock, stepped=looked
            )
        finally:
            launch.end()
            sampler.close()
            shorten(path)
    _await_files(path, watched, workers=trial.point.workers, lag_s=bench.lag_s, clock=bench.clock)
    result = _result(trial, path, watched, limits=limits, memory_kills=_risen(kills))
    return commit(folder, replace(result, script_sha256=digest), started=started)


def _await_files(path: Path, watched: Watched, *, workers: int, lag_s: float, clock: Clock) -> None:
    """Wait until the end or failure of every worker can be seen: a network file system shows new names late.

    Where torchrun says that all is well they must come; where it says otherwise a worker may have left nothing."""
    if watched.how != "exited":
        return
    until = clock.monotonic_s() + (lag_s if watched.exit_code == 0 else min(lag_s, _FAILED_LAG_S))
    while ended(path) + len(failures(path)) < workers and clock.monotonic_s() < until:
        clock.pause(_LOOK_S)
        look_again(path)


def _result(trial: Trial, path: Path, watched: Watched, *, limits: Limits, memory_kills: int) -> TrialResult:
    workers = written(path)
    said = [path / "out-main.log", *sorted(path.glob("out-main-*.log"))]
    logs = [path / _LOG, *sorted(path.glob("launcher-*.log"))]  # of this node, of the others
    log = "".join([*map(text_tail, said), *(text_tail(file, most=20_000) for file in logs)])
    state, reason = classify(
        Evidence(
            workers=trial.point.workers,
            watched=watched,
            limits=limits,
            endings=workers.endings,
            failures=failures(path),
            records=workers.records,
            stacks=stacks(path),
            log=log,
            memory_kills=memory_kills + len(_SLURM_MEMORY_KILL.findall(log)),
            lost_nodes=lost_nodes(path),
            said=outputs(path),
            standings=standings(path),
        )
    )
    tail = "" if state == "ok" else _tail(path, log)
    return TrialResult(trial, state, reason, workers.records, watched.wall_s, tail, telemetry(path))


def _tail(path: Path, log: str) -> str:
    """What a person would look at first: the end of what the workers printed, then of the launcher."""
    said = [text_tail(file, most=1500) for file in sorted(path.glob("out-[0-9]*.log"))]
    return "\n".join(text for text in (*said, log[-2000:]) if text.strip())


def _absent(study: Study) -> str | None:
    """Why nothing can be launched: the script is not there."""
    if study.workload.kind != "script":
        return None
    script = Path(study.directory or ".") / study.workload.name
    return None if script.is_file() else f"all workers: the script {script} does not exist"


def _risen(before: int | None) -> int:
    after = kernel_oom_kills()
    return 0 if before is None or after is None else after - before
