"""What a machine is, as far as it could be seen from outside a training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Machine"]


@dataclass(frozen=True, slots=True)
class Machine:
    """None: not looked at, or not to be had here."""

    python: str  # the interpreter that would run the script
    torch: str | None = None
    problem: str | None = None  # why that Python could not be asked
    nccl: bool | None = None
    devices: tuple[str, ...] | None = None  # CUDA devices that torch sees
    gpus: int | None = None  # NVIDIA GPUs on the machine's bus
    infiniband: tuple[str, ...] = ()
    cores: int = 1  # that this process may use
    machine_cores: int | None = None
    busy_ratio: float | None = None  # of the machine's cores, just now, without this process
    busiest: tuple[str, ...] = ()  # name and pid
    open_files: int | None = None  # None: without a limit
    locked_bytes: int | None = None  # None: without a limit
    shm_free_bytes: int | None = None
    governors: tuple[str, ...] = ()
    clock_ratio: float | None = None  # the highest frequency that is allowed, of the highest that there is
    folder: str = "."
    file_system: str | None = None
    free_bytes: int | None = None
    sync_s: float | None = None  # to write a small file safely
    host: str = ""
    host_addresses: tuple[str, ...] | None = None  # None: the name is not found
    interfaces: tuple[str, ...] = ()
    loopback_reached: bool | None = None
    port_holder: str | None = None  # who holds MASTER_PORT
    leftovers: tuple[str, ...] = ()  # workers of an earlier training that still run
    environment: Mapping[str, str] = field(default_factory=dict)
