"""What a study asks of a scheduler."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Allocation:
    """What is asked of Slurm for a Study. Nodes and workers are the Study's own."""

    partition: str | None = None
    account: str | None = None
    time_s: float | None = None  # None: the partition's default
    gres: str | None = None  # per node: gpu:4
    constraint: str | None = None
    exclusive: bool = False
    modules: tuple[str, ...] = ()
    prologue: tuple[str, ...] = ()  # lines of shell, as they are
    container: str | None = None  # a .sif file or folder (Apptainer), else an image for Slurm's Pyxis
    options: tuple[str, ...] = ()  # further options of sbatch: "qos=high"
    array: int | None = None  # tasks at once of a job array; 0: one allocation; None: what suits
