"""The nodes of the allocation that this desk lies in, for studies and probes alike: looked at, and said aloud."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from paceline.launch.command import INTERFACE_VARIABLES
from paceline.launch.facts import Subject
from paceline.launch.interpreter import package_folder
from paceline.launch.slurm.launcher import SlurmLauncher
from paceline.launch.slurm.nodes import allocation_here, first_address, looked_at, looked_into, task_here
from paceline.plan.preflight import Facts
from paceline.records import Study

__all__ = ["launcher_here", "nodes_seen"]


def launcher_here(study: Study | None) -> SlurmLauncher | None:
    """What starts trials as steps of this allocation, in the study's container if it has one; None outside of any."""
    here = allocation_here(os.environ)
    if here is None:
        return None
    job, nodes = here
    container = None if study is None or study.slurm is None else study.slurm.container
    return SlurmLauncher(job, nodes, first_address(nodes), container, task_here(os.environ))


def nodes_seen(launcher: SlurmLauncher, subject: Subject, *, folder: Path) -> tuple[Facts, ...]:
    """Say which nodes these are; the Facts of each, to be judged. None of containers, where too little is seen."""
    place = str(folder.absolute())
    if launcher.container is None:
        facts = judgeable = looked_at(launcher, subject, folder=place)
    else:
        on_node = package_folder("paceline_agent") / "enter" / "on_node.py"
        facts, judgeable = looked_into(launcher, python=subject.python, folder=place, on_node=on_node), ()
    print(f"paceline: {_nodes_text(launcher.asked, facts)}", file=sys.stderr, flush=True)
    return judgeable


def _nodes_text(job: str, facts: Sequence[Facts]) -> str:
    """job 12: n1 (10.0.0.1 over eth0, 8 cores), n2 (…); interfaces by route to n1."""
    each = [
        f"{fact.host} ({fact.address} over {fact.interface or 'an unnamed interface'}, "
        f"{fact.cores} core{'' if fact.cores == 1 else 's'})"
        for fact in facts
    ]
    own = [f"{name}={os.environ[name]}" for name in INTERFACE_VARIABLES if os.environ.get(name)]
    why = f"your {', '.join(own)} stands" if own else "interfaces by route to the first"
    return f"job {job}: {', '.join(each)}; {why}"
