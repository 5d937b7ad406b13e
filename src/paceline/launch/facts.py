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
from itertools import islice
from pathlib import Path

from paceline import __version__
from paceline.launch.interpreter import package_folder
from paceline.launch.nodes.route import Way
from paceline.launch.processes import cores
from paceline.plan.preflight import Facts

__all__ = ["Subject", "facts_of_this_node"]

_COMPARED = ("NCCL_", "GLOO_", "TORCH_", "UCX_", "MKL_", "KMP_", "OMP_")
_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
_LOOK_S = 120.0
_MOST_BESIDE = 200


@dataclass(frozen=True, slots=True)
class Subject:
    """What a node is asked about: the Python, the script where it would lie there, and whether devices matter.

    `module` instead of a script, as Python would find it from `directory`.
    """

    python: str
    script: str | None
    devices: bool
    module: str | None = None
    directory: str | None = None


class _Unusable(Exception):
    """A Python that does not answer."""


def facts_of_this_node(subject: Subject, *, node: int, way: Way | None) -> Facts:
    """The Facts of the machine that this process is on."""
    seen: dict[str, object] = {}
    script, top, problem = None, None, None
    try:
        seen = _looked(subject)
        script, top = _code(subject)
        if seen.get("problem"):
            problem = f"torch cannot be imported there: {seen['problem']}"
    except _Unusable as found:
        problem = str(found)
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
        script=subject.module or subject.script,
        script_sha256=_digest(script) if script else None,
        beside=_beside(script, top) if script else (),
        environment=tuple(
            (name, value)
            for name, value in sorted(os.environ.items())
            if name.startswith(_COMPARED) and not any(word in name for word in _SECRET)
        ),
        problem=problem,
    )


def _looked(subject: Subject) -> dict[str, object]:
    """What the script's own Python says about itself."""
    devices = ["--devices"] if subject.devices or _has_devices() else []
    return _said(subject, "look.py", *devices)


def _code(subject: Subject) -> tuple[Path | None, Path | None]:
    """The file that would be run, and the folder of the package that it belongs to, where it is a module's."""
    if subject.module is None:
        return (Path(subject.script) if subject.script else None), None
    seen = _said(subject, "find_module.py", subject.module)
    file, package = seen.get("file"), seen.get("package")
    return (Path(str(file)) if file else None), (Path(str(package)) if package else None)


def _said(subject: Subject, name: str, *words: str) -> dict[str, object]:
    """One line of JSON from a file of the agent, run by the script's own Python from the folder of the trials."""
    file = package_folder("paceline_agent") / "enter" / name
    here = subject.directory if subject.directory and os.path.isdir(subject.directory) else None
    try:
        done = subprocess.run(
            [subject.python, str(file), *words],
            cwd=here,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LOOK_S,
            check=False,
        )
        lines = done.stdout.strip().splitlines()
        if not lines:
            raise ValueError(_reason(done))
        seen = json.loads(lines[-1])
    except (OSError, ValueError, subprocess.TimeoutExpired) as problem:
        raise _Unusable(f"{subject.python} could not be asked for its versions: {problem}") from problem
    return seen if isinstance(seen, dict) else {}


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """What a program that printed nothing said of its end."""
    told = done.stderr.strip().splitlines()
    return told[-1] if told else f"it ended with code {done.returncode} and said nothing"


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


def _beside(script: Path, package: Path | None) -> tuple[tuple[str, str], ...]:
    """The Python files of the package, or of the script's folder: what it may import. Too many to be its own: none."""
    root, files = (
        (script.parent, script.parent.glob("*.py")) if package is None else (package, package.rglob("*.py"))
    )
    others = sorted(path for path in islice(files, _MOST_BESIDE + 2) if path != script)
    if len(others) > _MOST_BESIDE:
        return ()
    digests = [(path.relative_to(root).as_posix(), _digest(path)) for path in others]
    return tuple((name, found) for name, found in digests if found)


def _text(value: object) -> str | None:
    return None if value is None else str(value)
