"""The command of one probe, as data: torchrun starts the agent's own benchmark, and nothing of the user's.

    PYTHON -m torch.distributed.run … --nproc-per-node N -m paceline_agent.probe

The same Command goes to every launcher; on several nodes all start it and meet at the Rendezvous. The first worker
writes probe.jsonl into the folder, so the other nodes need not share a file system with the desk.
"""

from __future__ import annotations

import json
import os.path
from collections.abc import Mapping, Sequence

from paceline.launch.command import TORCHRUN, Command, Rendezvous, torchrun_options
from paceline.records import Point, Trial

__all__ = ["probe_command", "probe_trial"]


def probe_trial(workers: int, nodes: int) -> Trial:
    """A probe as launchers know it: so many workers on so many nodes."""
    name = f"probe-n{nodes}-w{workers}"
    return Trial(name, Point(name, workers, nodes), 1, ())


def probe_command(
    folder: str,
    sizes: Sequence[int],
    *,
    workers: int,
    python: str,
    tag: str,
    nodes: int = 1,
    backends: Sequence[str] = ("gloo",),
    seconds: float = 20.0,
    device: bool = True,
    threads: int = 1,
    environment: Mapping[str, str],
    rendezvous: Rendezvous | None = None,
) -> Command:
    """The Command that probes `workers` on `nodes` and writes into `folder` (absolute; agent/ lies in it)."""
    trial = probe_trial(workers, nodes)
    searched = [
        os.path.join(folder, "agent"),
        *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)),
    ]
    order = {
        "backends": list(backends),
        "sizes": list(sizes),
        "seconds": seconds,
        "device": device,
    }
    return Command(
        argv=(python, "-m", TORCHRUN, *torchrun_options(trial, rendezvous), "-m", "paceline_agent.probe"),
        directory=os.sep,  # one that every node has
        environment={
            "PACELINE_TRIAL": json.dumps({"dir": folder, "probe": order}),
            "PACELINE_TAG": tag,
            "PYTHONPATH": os.pathsep.join(searched),
            "OMP_NUM_THREADS": str(threads),
        },
        trial_dir=folder,
        tag=tag,
    )
