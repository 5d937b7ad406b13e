"""The command line and the environment of one trial, as data. Nothing here starts anything.

start.py has the words of each launcher. On several nodes every node starts the same command, and they meet at one
Rendezvous:

    --nnodes M --nproc-per-node N/M --rdzv-backend c10d --rdzv-endpoint HOST:PORT --rdzv-id ID

on_node() adds what is a node's own: the address that others reach it at, whether it holds the rendezvous, and
the network interface of the exchange.

Names are list elements from end to end: no shell ever sees them.
"""

from __future__ import annotations

import json
import os.path
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace

from paceline.core.errors import UsageError
from paceline.launch.start import MODULES, started
from paceline.plan.config_files import copies, launcher_config, own_args
from paceline.plan.trials import PROFILE_STEPS
from paceline.records import Study, Trial

__all__ = [
    "Command",
    "Rendezvous",
    "command_line",
    "on_node",
    "threads_per_worker",
    "torchrun_options",
    "trial_command",
]

NOISE_EVERY = 10  # steps between two readings of gradient norms
INTERFACE_VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
TORCHRUN = "torch.distributed.run"


@dataclass(frozen=True, slots=True)
class Command:
    """What is executed for one trial, where, and the variables set on top of the desk's own environment."""

    argv: tuple[str, ...]
    directory: str
    environment: Mapping[str, str]
    trial_dir: str
    tag: str


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Where the nodes of one trial meet: `host:port` of the first node, and a name that no other trial has."""

    endpoint: str
    id: str


def threads_per_worker(study: Study, *, environment: Mapping[str, str], cores: int) -> int:
    """CPU threads of every worker at every point: asked for, set by the user, or cores / most workers of a node.

    torchrun would set OMP_NUM_THREADS=1 when it starts several workers and leave it alone for one, so that
    the one-worker baseline alone would use all cores.
    """
    if study.threads is not None:
        return study.threads
    given = environment.get("OMP_NUM_THREADS", "")
    if given.isascii() and given.isdigit() and int(given) > 0:
        return int(given)
    return max(1, cores // max(study.workers_per_node or study.workers))


def trial_command(
    study: Study,
    trial: Trial,
    *,
    trial_dir: str,
    tag: str,
    python: str,
    threads: int,
    environment: Mapping[str, str],
    rendezvous: Rendezvous | None = None,
) -> Command:
    """The Command of one trial, which lies in `trial_dir`: the same on every node. `environment` is the desk's own."""
    workload = study.workload
    directory = study.directory or "."
    if workload.kind == "script":
        target = [os.path.join(directory, workload.name)]
    elif workload.kind == "module":
        target = ["-m", workload.name]
    else:
        target = ["-m", f"paceline_workloads.{workload.name.replace('-', '_')}"]
    changed = copies(trial.point, trial_dir)
    agent = ["-m", "paceline_agent", *target, *own_args(trial.args, changed)]
    config = launcher_config(trial.point)
    if workload.start == "torchrun":
        argv = [python, "-m", TORCHRUN, *torchrun_options(trial, rendezvous), *agent]
    elif trial.point.nodes > 1:
        raise UsageError(
            f"{workload.start} starts the workers of {workload.name}, on one node only; "
            f"run {trial.id} asks for {trial.point.nodes}",
            hint="let torchrun start them: --launcher torchrun",
        )
    elif workload.start in MODULES:
        argv = [
            python,
            *started(
                workload.start,
                agent,
                workers=trial.point.workers,
                config=None if config is None else changed.get(config, config),
                distributed=config is not None,
                tag=tag,
            ),
        ]
    else:
        argv = [python, *agent]
    agent_path = os.path.join(trial_dir, "agent")
    searched = [agent_path, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    order = {
        "dir": trial_dir,
        "steps": study.steps,
        "warmup": study.warmup,
        "profile": PROFILE_STEPS,
        "end": study.goal is None,
        "hang_s": study.hang_s,
        "workers": trial.point.workers,
        "backend": trial.point.backend,
        "flops": study.flops,
        **_goal_order(study),
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


def _goal_order(study: Study) -> dict[str, object]:
    """What the agent does beside timing: gradient noise, metrics, the target of a script, a limit to memory."""
    order: dict[str, object] = {}
    if study.memory_limit_bytes is not None:
        order["memory_limit_bytes"] = study.memory_limit_bytes
    if study.goal is not None:
        order |= {"training": True, "noise_every": NOISE_EVERY, "metric": study.goal.metric}
        if study.workload.kind != "workload" and study.goal.seeds is not None:
            # ours are told their target and stop by themselves; the one training of `train` is left to its end
            order |= {"target": study.goal.target, "rises": study.goal.rises}
    return order


def on_node(
    command: Command,
    *,
    address: str | None,
    interface: str | None,
    holds: bool,
    environment: Mapping[str, str],
) -> Command:
    """The command as one of several nodes starts it: reached at `address`, exchanging over `interface`.

    torchrun tells the workers to meet at the first node's host name, which other nodes may not resolve, and
    decides by names who holds the rendezvous: said here, neither needs a name. A variable that the node's own
    `environment` holds already wins.
    """
    at = command.argv.index(TORCHRUN) + 1
    own = [*(["--local-addr", address] if address else []), "--rdzv-conf", f"is_host={int(holds)}"]
    free = [name for name in INTERFACE_VARIABLES if interface and not environment.get(name)]
    return replace(
        command,
        argv=(*command.argv[:at], *own, *command.argv[at:]),
        environment={**dict.fromkeys(free, interface or ""), **command.environment},
    )


def command_line(command: Command) -> str:
    """The command as it could be pasted into a shell, for people to read."""
    return shlex.join(command.argv)


def torchrun_options(trial: Trial, rendezvous: Rendezvous | None) -> list[str]:
    """How many workers torchrun starts on a node, and where the nodes meet."""
    nodes, workers = trial.point.nodes, trial.point.workers
    if nodes == 1:
        meet = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    elif rendezvous is not None:
        meet = ["--rdzv-backend", "c10d", "--rdzv-endpoint", rendezvous.endpoint, "--rdzv-id", rendezvous.id]
    else:
        raise UsageError(
            f"run {trial.id} needs {nodes} nodes, and only this one is here",
            hint="paceline join on the other nodes, or --on slurm",
        )
    return ["--nnodes", str(nodes), "--nproc-per-node", str(workers // nodes), *meet, "--max-restarts", "0"]
