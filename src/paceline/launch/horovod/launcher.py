"""`paceline horovod run` on this machine as data: the torchrun command that starts the workers.

    PYTHON -m torch.distributed.run --nproc-per-node N --no-python COMMAND…

A folder first on PYTHONPATH holds paceline_horovod and a sitecustomize that lets `import horovod` find it, so
the command may be any: `python train.py`, `python -m package.train`, a shell script that calls Python.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from paceline.launch.interpreter import interpreter, package_folder

__all__ = ["command_of", "command_words", "environment_of", "launched", "provide_in"]


def command_of(command: Sequence[str], *, workers: int, restarts: int = 0) -> list[str]:
    """The torchrun command line that starts `command` once per worker, and again after a loss if asked to."""
    python, words = command_words(command)
    rendezvous = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--max-restarts", str(restarts)]
    count = ["--nnodes", "1", "--nproc-per-node", str(workers)]
    launcher = [python, "-m", "torch.distributed.run", *count, *rendezvous, "--no-python"]
    return [*launcher, *words]


def command_words(command: Sequence[str]) -> tuple[str, list[str]]:
    """The Python that starts torchrun, and the command with its own Python spelled out."""
    named = Path(command[0]).name.startswith("python")
    python = interpreter(command[0] if named else None)
    return python, [python if named else command[0], *command[1:]]


def environment_of(
    folder: str, *, workers: int, cores: int, environment: Mapping[str, str]
) -> dict[str, str]:
    """The desk's environment with `folder` searched first, and the cores shared out unless the user has decided.

    The folder must be this launch's own: unless the user has another, commits of an elastic training lie in it."""
    searched = [folder, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    threads = environment.get("OMP_NUM_THREADS") or str(max(1, cores // workers))
    own = {"PYTHONPATH": os.pathsep.join(searched), "OMP_NUM_THREADS": threads}
    own["PACELINE_HOROVOD_STATE"] = environment.get("PACELINE_HOROVOD_STATE") or folder
    # the backend is that which horovod.keras has here
    return {"KERAS_BACKEND": "torch", **environment, **own, **launched()}


def launched() -> dict[str, str]:
    """A name that no other launch has: what an elastic training left under another one is never restored."""
    return {"PACELINE_HOROVOD_LAUNCH": secrets.token_hex(16)}


def provide_in(folder: str) -> None:
    """Copy paceline_horovod and its sitecustomize into a folder that will be searched first."""
    package = package_folder("paceline_horovod")
    copy = Path(folder) / package.name
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    shutil.copyfile(copy / "run_entry.py", Path(folder) / "sitecustomize.py")
