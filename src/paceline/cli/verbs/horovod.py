"""`paceline horovod run` and `paceline horovod migrate`."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from paceline.cli.options.horovod import RUN, RunOptions, run_options
from paceline.cli.text.guard import unguarded
from paceline.core.errors import UsageError
from paceline.horovod.migrate import migrated, unified_diff
from paceline.launch.horovod.hosts import (
    Host,
    Meeting,
    Way,
    command_on,
    is_here,
    script_on,
    shared_out,
    slurm_hosts,
)
from paceline.launch.horovod.launcher import command_of, command_words, environment_of, launched, provide_in
from paceline.launch.horovod.start import archive_of, start_all
from paceline.launch.nodes.route import address_towards, free_port, own_addresses
from paceline.launch.processes import cores
from paceline.launch.slurm.nodes import allocation_here, first_address

__all__ = ["CONTEXT", "horovod"]

_MIGRATE = "paceline horovod migrate train.py"


CONTEXT = {"allow_interspersed_args": False}  # what follows `run` belongs to the command, options too


def horovod(
    words: Annotated[list[str], typer.Argument(metavar="run|migrate …", help="What to do, and with what.")],
) -> None:
    """Run a script written for Horovod, or show it on plain DistributedDataParallel.

    paceline horovod run -np 4 [-H node1:2,node2:2] python train.py …

    paceline horovod migrate train.py [--write]
    """
    action, *rest = words
    if action == "run":
        raise typer.Exit(_run(rest))
    if action == "migrate":
        raise typer.Exit(_migrate(rest))
    raise UsageError(f"horovod {action!r} is neither run nor migrate", hint=RUN)


def _run(args: Sequence[str]) -> int:
    """Start the command once per worker, wait for it; its exit code. Options are those of horovodrun."""
    asked = run_options(args)
    environment = {**os.environ, **asked.environment}
    allocation = allocation_here(os.environ) if asked.hosts is None else None
    here = socket.gethostname().partition(".")[0]
    if allocation is not None and [name.partition(".")[0] for name in allocation[1]] != [here]:
        tasks = os.environ.get("SLURM_TASKS_PER_NODE", "")
        nodes = slurm_hosts(allocation[1], workers=asked.workers, tasks_per_node=tasks)
        planned = int(os.environ.get("SLURM_NTASKS", "0")) or None
        return _run_on(shared_out(nodes, asked.workers or planned), "srun", asked, environment)
    if asked.hosts is not None and not all(is_here(host) for host in asked.hosts):
        return _run_on(shared_out(asked.hosts, asked.workers), "ssh", asked, environment)
    if asked.workers is None and asked.hosts is None:
        raise UsageError("horovod run was not told how many workers to start (-np)", hint=RUN)
    local = shared_out(asked.hosts or (Host("localhost", asked.workers or 1),), asked.workers)
    workers = sum(host.slots for host in local)
    with tempfile.TemporaryDirectory(prefix="paceline-horovod-") as folder:
        provide_in(folder)
        own = environment_of(folder, workers=workers, cores=cores(), environment=environment)
        command = command_of(asked.command, workers=workers, restarts=asked.restarts)
        return subprocess.run(command, env=own, check=False).returncode


def _run_on(
    hosts: Sequence[Host], way: Literal["ssh", "srun"], asked: RunOptions, environment: dict[str, str]
) -> int:
    """One torchrun per host; what they print is printed here."""
    ways: list[Way] = ["here" if way == "ssh" and is_here(host) else way for host in hosts]
    first = hosts[0].name
    if way == "srun":
        first = first_address([first])
    elif ways[0] == "here":
        first = address_towards(hosts[-1].name) or own_addresses()[0]
    port = asked.master_port or (free_port("0.0.0.0") if ways[0] == "here" else 29500 + os.getpid() % 500)
    python, command = command_words(asked.command)
    with tempfile.TemporaryDirectory(prefix="paceline-horovod-") as folder:
        provide_in(folder)
        archive = archive_of(Path(folder))
    commands = []
    launch = launched()
    for number, host in enumerate(hosts):
        script = script_on(
            hosts,
            number,
            command,
            python=python,
            meeting=Meeting(first, port),
            restarts=asked.restarts,
            folder=os.getcwd(),
            environment={"KERAS_BACKEND": "torch", **environment, **launch},
            archive_bytes=len(archive),
        )
        commands.append(
            command_on(host, script, ways[number], ssh_port=asked.ssh_port, identity=asked.identity)
        )
    said = ", ".join(f"{host.name}:{host.slots}" for host in hosts)
    print(f"paceline: starting {sum(h.slots for h in hosts)} workers on {said} by {way}", file=sys.stderr)
    start_all(commands, names=[host.name for host in hosts], archive=archive)
    return 0


def _migrate(args: Sequence[str]) -> int:
    write = "--write" in args
    names = [arg for arg in args if arg != "--write"]
    if len(names) != 1 or names[0].startswith("-"):
        raise UsageError(f"horovod migrate takes one script, not {' '.join(args) or 'none'}", hint=_MIGRATE)
    path = Path(names[0])
    if not path.is_file():
        raise UsageError(f"there is no script {path}", hint=_MIGRATE)
    before = path.read_text(encoding="utf-8")
    result = migrated(before, name=str(path))
    patch = sys.stdout if sys.stdout.isatty() else unguarded(sys.stdout)  # to be applied: byte for byte
    print(unified_diff(before, result.text, name=str(path)), end="", file=patch)
    for line, what in result.by_hand:
        print(f"paceline: {path}:{line}: {what}", file=sys.stderr)
    if write and result.text != before:
        path.write_text(result.text, encoding="utf-8")
        print(
            f"paceline: {path} is changed; start it with torchrun --nproc-per-node N {path}", file=sys.stderr
        )
    return 0
