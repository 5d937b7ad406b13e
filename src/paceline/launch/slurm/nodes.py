"""The nodes of an allocation: which they are, where they meet, and whether each can take part."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from paceline.core.errors import PacelineError, UsageError
from paceline.core.json_data import record_from
from paceline.launch.facts import Subject
from paceline.launch.slurm.client import hostnames, node_lines
from paceline.launch.slurm.container import contained
from paceline.launch.slurm.launcher import SlurmLauncher
from paceline.launch.slurm.look import answers
from paceline.plan.preflight import Facts
from paceline.slurm.state import node_address

__all__ = ["allocation_here", "first_address", "looked_at", "looked_into", "task_here"]

_CHECK_S = 180.0


def allocation_here(environment: Mapping[str, str]) -> tuple[str, tuple[str, ...]] | None:
    """The job and the nodes that this process lies in; None outside an allocation."""
    job, nodes = environment.get("SLURM_JOB_ID"), environment.get("SLURM_JOB_NODELIST")
    return (job, hostnames(nodes)) if job and nodes else None


def task_here(environment: Mapping[str, str]) -> str | None:
    """The task of an array that this process lies in, as Slurm is asked about it: 12_3; None where there is none."""
    array, task = environment.get("SLURM_ARRAY_JOB_ID"), environment.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else None


def first_address(nodes: Sequence[str]) -> str:
    """The first node's address: what Slurm itself uses, when that can be resolved here, else its name."""
    told = node_address(node_lines(nodes[:1]).get(nodes[0], ""))
    for candidate in (told, nodes[0]):
        if candidate:
            try:
                return str(socket.getaddrinfo(candidate, None, type=socket.SOCK_STREAM)[0][4][0])
            except OSError:
                continue
    raise UsageError(
        f"neither {told} nor {nodes[0]} resolves to an address, so that nodes cannot meet",
        hint="ask whoever runs this Slurm for NodeAddr of its nodes (scontrol show node)",
    )


def looked_at(launcher: SlurmLauncher, subject: Subject, *, folder: str) -> tuple[Facts, ...]:
    """The Facts of every node, its clock beside this one's as closely as one srun can tell."""
    words = [sys.executable, "-m", "paceline.launch.slurm.look", launcher.address, folder]
    before = time.time()
    seen = _asked(launcher, [*words, json.dumps(asdict(subject))], code="", folder=folder)
    half_s = (time.time() - before) / 2
    facts = [
        replace(
            record_from(Facts, one["facts"]),
            skew_s=float(str(one["unix_s"])) - (before + half_s),
            skew_error_s=half_s,
        )
        for one in seen
    ]
    return tuple(sorted(facts, key=lambda fact: fact.node))


def looked_into(launcher: SlurmLauncher, *, python: str, folder: str, on_node: Path) -> tuple[Facts, ...]:
    """The same of containers, which have no paceline: what `on_node` can say, read by the container's Python."""
    options, inside = contained(launcher.container, (folder,))
    code = on_node.read_text(encoding="utf-8")
    seen = _asked(
        launcher, [*inside, python, "-", launcher.address, folder], code=code, folder=folder, options=options
    )
    facts = [
        Facts(
            node=launcher.nodes.index(str(one["node"])),
            host=str(one["node"]),
            address=str(one["address"]),
            interface=None if one["interface"] is None else str(one["interface"]),
            cores=int(str(one["cores"])),
        )
        for one in seen
    ]
    return tuple(sorted(facts, key=lambda fact: fact.node))


def _asked(
    launcher: SlurmLauncher, words: Sequence[str], *, code: str, folder: str, options: Sequence[str] = ()
) -> list[dict[str, object]]:
    """What every node answers; a PacelineError unless all do, and all see the folder."""
    every = len(launcher.nodes)
    done = _step([*launcher.srun(every, name="paceline-look"), *options, *words], code=code)
    said = answers(done.stdout) or [
        json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")
    ]
    if done.returncode or len(said) < every:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        own = [line for line in lines if not line.startswith("srun:")]
        why = (own or lines or [f"exit code {done.returncode}"])[-1]
        raise PacelineError(
            f"{len(said)} of {every} nodes of job {launcher.job} can take part: {why}",
            hint="install paceline where compute nodes see it; --load-module or --prologue for what it needs",
        )
    blind = sum(not one["sees_folder"] for one in said)
    if blind:
        raise PacelineError(
            f"{blind} of {every} nodes do not see {folder}",
            hint="--out on a file system that all nodes share",
        )
    return said


def _step(words: Sequence[str], *, code: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words, input=code, capture_output=True, text=True, timeout=_CHECK_S, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 124, "", f"no answer within {_CHECK_S:.0f} s")
