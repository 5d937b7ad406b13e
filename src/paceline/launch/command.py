"""The command line and the environment of one trial, as data. Nothing here starts anything.

    torchrun   PYTHON -m torch.distributed.run … --nproc-per-node N -m paceline_agent [-m MODULE|SCRIPT] ARGS
    script     PYTHON -m paceline_agent SCRIPT ARGS                   the script starts its own workers

Names are list elements from end to end: no shell ever sees them.
"""

from __future__ import annotations

import json
import os.path
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from paceline.plan import PROFILE_STEPS
from paceline.records import Study, Trial

__all__ = ["Command", "command_line", "threads_per_worker", "trial_command"]


@dataclass(frozen=True, slots=True)
class Command:
    """What is executed for one trial, where, and the variables set on top of the desk's own environment."""

    argv: tuple[str, ...]
    directory: str
    environment: Mapping[str, str]
    trial_dir: str
    tag: str


def threads_per_worker(study: Study, *, environment: Mapping[str, str], cores: int) -> int:
    """CPU threads of every worker at every point: asked for, set by the user, or cores / most workers.

    torchrun would set OMP_NUM_THREADS=1 when it starts several workers and leave it alone for one, so that
    the one-worker baseline alone would use all cores.
    """
    if study.threads is not None:
        return study.threads
    given = environment.get("OMP_NUM_THREADS", "")
    if given.isascii() and given.isdigit() and int(given) > 0:
        return int(given)
    return max(1, cores // max(study.workers))


def trial_command(
    study: Study,
    trial: Trial,
    *,
    trial_dir: str,
    tag: str,
    python: str,
    threads: int,
    environment: Mapping[str, str],
) -> Command:
    """The Command of one trial, which lies in `trial_dir`. `environment` is the desk's own."""
    workload = study.workload
    directory = study.directory or "."
    if workload.kind == "script":
        target = [os.path.join(directory, workload.name)]
    elif workload.kind == "module":
        target = ["-m", workload.name]
    else:
        target = ["-m", f"paceline_workloads.{workload.name.replace('-', '_')}"]
    agent = ["-m", "paceline_agent", *target, *trial.args]
    if workload.start == "torchrun":
        rendezvous = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--max-restarts", "0"]
        workers = ["--nnodes", "1", "--nproc-per-node", str(trial.point.workers)]
        argv = [python, "-m", "torch.distributed.run", *workers, *rendezvous, *agent]
    else:
        argv = [python, *agent]
    agent_path = os.path.join(trial_dir, "agent")
    searched = [agent_path, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    order = {
        "dir": trial_dir,
        "steps": study.steps,
        "warmup": study.warmup,
        "profile": PROFILE_STEPS,
        "end": True,
        "workers": trial.point.workers,
        "backend": trial.point.backend,
    }
    return Command(
        argv=tuple(argv),
        directory=directory,
        environment={
            "PACELINE_TRIAL": json.dumps(order),
            "PACELINE_TAG": tag,
            "PYTHONPATH": os.pathsep.join(searched),
            "OMP_NUM_THREADS": str(threads),
        },
        trial_dir=trial_dir,
        tag=tag,
    )


def command_line(command: Command) -> str:
    """The command as it could be pasted into a shell, for people to read."""
    return shlex.join(command.argv)
