"""A step inside a container, by what the image is: Apptainer for a .sif file or a folder, else Slurm's Pyxis plugin.

The desk stays outside; the trial sees its own folder and the script's at the same paths.
"""

from __future__ import annotations

import os.path
from collections.abc import Sequence

__all__ = ["contained"]


def contained(container: str | None, folders: Sequence[str]) -> tuple[list[str], list[str]]:
    """Options of srun, and words before the command, that put a step into a container which sees these folders."""
    if container is None:
        return [], []
    if container.endswith(".sif") or os.path.isdir(container):
        binds = [word for folder in folders for word in ("--bind", folder)]
        return [], ["apptainer", "exec", "--nv", *binds, container]
    mounts = ",".join(f"{folder}:{folder}" for folder in folders)
    return [f"--container-image={container}", f"--container-mounts={mounts}"], []
