"""The nodes of an allocation: which they are, where they meet, and whether each can take part."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.errors import PacelineError, UsageError
from paceline.launch.slurm import SlurmLauncher
from paceline.launch.slurm_client import hostnames, node_lines
from paceline.launch.slurm_container import contained
from paceline.slurm_state import node_address

__all__ = ["NodeFacts", "allocation_here", "checked_nodes", "first_address"]

_CHECK_S = 120.0


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What one node of the allocation said before the first trial."""

    node: str
    address: str
    interface: str | None
    cores: int
    unix_s: float
    chosen: bool  # the user has named the interface


def allocation_here(environment: Mapping[str, str]) -> tuple[str, tuple[str, ...]] | None:
    """The job and the nodes that this process lies in; None outside an allocation."""
    job, nodes = environment.get("SLURM_JOB_ID"), environment.get("SLURM_JOB_NODELIST")
    return (job, hostnames(nodes)) if job and nodes else None


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


def checked_nodes(
    launcher: SlurmLauncher, *, python: str, folder: str, on_node: Path
) -> tuple[NodeFacts, ...]:
    """Ask every node of the allocation, before the first trial, whether it can take part; what it says of itself."""
    every = len(launcher.nodes)
    options, inside = contained(launcher.container, (folder,))
    words = [*launcher.srun(every, name="paceline-check"), *options, *inside]
    try:
        done = subprocess.run(
            [*words, python, "-", launcher.address, folder],
            input=on_node.read_text(encoding="utf-8"),
            capture_output=True,
            text=True,
            timeout=_CHECK_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PacelineError(
            f"the {every} nodes of job {launcher.job} did not answer within {_CHECK_S:.0f} s",
            hint=f"squeue --steps -j {launcher.job} shows what stands there",
        ) from None
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or len(said) < every:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[0]
        raise PacelineError(
            f"{len(said)} of {every} nodes can start {python}: {last}",
            hint="--python with a path that compute nodes have, --load-module or --prologue for what it needs",
        )
    blind = sorted(fact["node"] for fact in said if not fact["sees_folder"])
    if blind:
        raise PacelineError(
            f"{', '.join(blind)} do not see {folder}", hint="--out on a file system that all nodes share"
        )
    found = [
        NodeFacts(f["node"], f["address"], f["interface"], f["cores"], f["unix_s"], any(f["chosen"].values()))
        for f in said
    ]
    return tuple(sorted(found, key=lambda fact: launcher.nodes.index(fact.node)))
