"""What this machine is, before any trial: the Facts that preflight judges. Looked at on every node alike."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from paceline import __version__
from paceline.errors import UsageError
from paceline.launch.interpreter import package_folder
from paceline.launch.processes import cores
from paceline.launch.route import Way
from paceline.preflight import Facts

__all__ = ["Subject", "facts_of_this_node"]

_COMPARED = ("NCCL_", "GLOO_", "TORCH_", "UCX_", "MKL_", "KMP_", "OMP_")
_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
_LOOK_S = 120.0
_MOST_BESIDE = 200


@dataclass(frozen=True, slots=True)
class Subject:
    """What a node is asked about: the Python, the script where it would lie there, and whether devices matter."""

    python: str
    script: str | None
    devices: bool


def facts_of_this_node(subject: Subject, *, node: int, way: Way | None) -> Facts:
    """The Facts of the machine that this process is on."""
    seen = _looked(subject)
    script = Path(subject.script) if subject.script else None
    devices, nccl = seen.get("devices"), seen.get("nccl")
    return Facts(
        node=node,
        host=socket.gethostname(),
        machine=_machine(),
        address=way.address if way else None,
        interface=way.interface if way else None,
        mtu_bytes=way.mtu_bytes if way else None,
        paceline=__version__,
        python=_text(seen.get("python")),
        torch=_text(seen.get("torch")),
        nccl=nccl if isinstance(nccl, bool) else None,
        devices=tuple(map(str, devices)) if isinstance(devices, list) else None,
        cores=cores(),
        shm_free_bytes=shutil.disk_usage("/dev/shm").free if os.path.isdir("/dev/shm") else None,
        script=subject.script,
        script_sha256=_digest(script) if script else None,
        beside=_beside(script) if script else (),
        environment=tuple(
            (name, value)
            for name, value in sorted(os.environ.items())
            if name.startswith(_COMPARED) and not any(word in name for word in _SECRET)
        ),
    )


def _looked(subject: Subject) -> dict[str, object]:
    """What the script's own Python says about itself."""
    look = package_folder("paceline_agent") / "look.py"
    asked = [subject.python, str(look), *(["--devices"] if subject.devices or _has_devices() else [])]
    try:
        done = subprocess.run(
            asked, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_LOOK_S, check=False
        )
        seen = json.loads(done.stdout.strip().splitlines()[-1])
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired) as problem:
        raise UsageError(
            f"{subject.python} could not be asked for its versions: {problem}",
            hint="--python /path/to/env/bin/python, the one you train with",
        ) from problem
    return seen if isinstance(seen, dict) else {}


def _has_devices() -> bool:
    """Whether NVIDIA's driver shows a device. Importing torch to count them takes seconds: only then."""
    return os.path.exists("/dev/nvidia0")


def _machine() -> str | None:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return None


def _digest(path: Path) -> str | None:
    with contextlib.suppress(OSError):
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return None


def _beside(script: Path) -> tuple[tuple[str, str], ...]:
    """The Python files in the script's folder: what it may import from there. Too many to be its own: none."""
    others = sorted(path for path in script.parent.glob("*.py") if path.name != script.name)
    digests = [(path.name, _digest(path)) for path in others[: _MOST_BESIDE + 1]]
    return tuple((name, found) for name, found in digests if found) if len(others) <= _MOST_BESIDE else ()


def _text(value: object) -> str | None:
    return None if value is None else str(value)
