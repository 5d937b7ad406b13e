"""Checkpoints that survive a kill at any moment: written beside, flushed to the disk, renamed; the last k are kept.

FOLDER/epoch-000003.pt              after the third epoch: complete, or it would not have this name
FOLDER/epoch-000003-step-000450.pt  450 steps into the fourth
FOLDER/.epoch-000004.part           being written, or left by a kill; nobody reads it, the next save removes it
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from paceline_workloads.training.refuse import refuse

__all__ = ["latest", "load", "save"]

FORMAT = 1


def save(folder: Path, epoch: int, state: Mapping[str, Any], *, keep: int, step: int = 0) -> Path:
    """Commit the state after this epoch and so many steps of the next. Once this returns, neither a kill nor a
    power cut can take it back."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"epoch-{epoch:06d}-step-{step:06d}" if step else f"epoch-{epoch:06d}"
    path, beside = folder / f"{name}.pt", folder / f".{name}.part"
    for half in folder.glob(".epoch-*.part"):
        half.unlink()
    with open(beside, "wb") as file:
        torch.save({"format": FORMAT, "epoch": epoch, **state}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    _flush(folder)
    for old in _complete(folder)[:-keep]:
        old.unlink()
    return path


def latest(folder: Path) -> Path | None:
    """The newest complete checkpoint; None where there is none."""
    complete = _complete(folder)
    return complete[-1] if complete else None


def load(path: Path) -> dict[str, Any]:
    """What was saved. Only tensors and plain values are read from the file: it cannot run code."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError) as problem:
        refuse(
            f"the checkpoint {path} cannot be read: {problem}",
            hint=f"remove {path}; the one before it is used",
        )
    except Exception as problem:  # pickle's own error has no public base
        refuse(f"{path} is not a checkpoint: {type(problem).__name__}", hint=f"remove {path}")
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        refuse(
            f"{path} is not a checkpoint of this trainer (format {FORMAT})",
            hint="choose another --checkpoint folder",
        )
    return state


def _complete(folder: Path) -> list[Path]:
    """Oldest first: an epoch's end comes before the steps of the next."""
    return sorted(folder.glob("epoch-*.pt"), key=lambda path: path.stem)


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
