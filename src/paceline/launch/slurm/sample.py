"""Telemetry of one node of an allocation: `python -m paceline.launch.slurm.sample TRIAL_FOLDER TAG NODES`.

The desk samples the workers beside it; on the other nodes this does, as a step of its own, until it is ended or the
trial has its commit mark.
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from paceline.launch.telemetry import PERIOD_S, Sampler

__all__ = ["main"]

_HEARTBEAT = struct.Struct("<QdQQ")  # steps, seconds, pid, phase; see docs/reference/files.md


def main(argv: Sequence[str]) -> None:
    folder, tag, nodes = Path(argv[0]), argv[1], argv[2].split(",")
    sampler = Sampler(folder, tag=tag, node=nodes.index(os.environ["SLURMD_NODENAME"]))
    while _under_way(folder):
        sampler.look(_workers(folder))
        time.sleep(PERIOD_S)
    sampler.close()


def _under_way(folder: Path) -> bool:
    """By listing: on a network file system a name that was asked for too early is denied for a while, to all here."""
    try:
        return "trial.json" not in os.listdir(folder)
    except FileNotFoundError:
        return False


def _workers(folder: Path) -> Iterator[tuple[int, int]]:
    """Rank and process id of every worker that has begun, on whichever node."""
    for path in folder.glob("heartbeat-*"):
        with contextlib.suppress(OSError, ValueError, struct.error):
            yield int(path.name.partition("-")[2]), _HEARTBEAT.unpack_from(path.read_bytes())[2]


if __name__ == "__main__":
    main(sys.argv[1:])
