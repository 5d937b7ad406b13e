"""Which laboratories there are, whose they are, and their end.

A lab's name says which process made it and when that process began, so a lab whose maker was killed is known by its
name alone: every `paceline lab` ends those first. `lab up` leaves a lab on purpose; a file in /run says so.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import count
from pathlib import Path

import psutil

from paceline.launch.processes import end_tagged
from paceline.testbed.blueprint import Host, Lab
from paceline.testbed.network import build, remove
from paceline.testbed.quota import groups_like, limit, remove_group
from paceline.testbed.system import ask

__all__ = ["end_lab", "keep", "kept_labs", "made", "new_name", "opened", "sweep"]

_PREFIX = "paceline-lab-"
_NAMESPACES = Path("/run/netns")
_KEPT = Path("/run/paceline-lab")
_GRACE_S = 2.0
_COUNT = count(1)  # a process may own several


def new_name() -> str:
    """A name that carries this process."""
    return f"{_PREFIX}{os.getpid()}-{_began(os.getpid())}-{next(_COUNT)}"


def made(lab: Lab) -> None:
    """Build a lab whole, or leave nothing of it."""
    try:
        build(lab)
        for host in lab.hosts:
            limit(host)
    except BaseException:
        end_lab(lab.name)
        raise


@contextmanager
def opened(lab: Lab) -> Iterator[Lab]:
    """A lab for as long as the block lasts."""
    made(lab)
    try:
        yield lab
    finally:
        end_lab(lab.name)


def keep(lab: Lab) -> None:
    """Let a lab outlive this process, until `lab down`."""
    _KEPT.mkdir(exist_ok=True)
    note = _KEPT / f"{lab.name}.json"
    draft = note.with_suffix(".new")
    draft.write_text(json.dumps(asdict(lab)), encoding="utf-8")
    draft.replace(note)


def kept_labs() -> list[Lab]:
    """The labs that `lab up` left."""
    found = []
    for note in sorted(_KEPT.glob(f"{_PREFIX}*.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            data = json.loads(note.read_text(encoding="utf-8"))
            lab = Lab(data["name"], tuple(Host(**row) for row in data["hosts"]), data["delay_s"])
            if lab.name in _names():
                found.append(lab)
    return found


def end_lab(name: str) -> int:
    """End every process in a lab and remove it. How many processes there were."""
    namespaces = [space for space in _namespaces() if _lab_of(space) == name]
    ended = end_tagged(f"{name}:", grace_s=_GRACE_S)
    ended += _end_inside(namespaces)
    for group in groups_like(f"{name}-"):
        remove_group(group)
    remove(namespaces)
    (_KEPT / f"{name}.json").unlink(missing_ok=True)
    return ended


def sweep() -> list[str]:
    """End the labs whose owner is gone and that nobody kept; their names."""
    gone = []
    kept = {note.stem for note in _KEPT.glob(f"{_PREFIX}*.json")}
    for name in sorted(_names()):
        pid, start, *_ = (*name.removeprefix(_PREFIX).split("-"), "", "")
        if name not in kept and pid.isdigit() and str(_began(int(pid))) != start:
            end_lab(name)
            gone.append(name)
    return gone


def _names() -> set[str]:
    """Labs of which anything is left: a namespace or a CPU group."""
    return {_lab_of(space) for space in (*_namespaces(), *(group.name for group in groups_like(_PREFIX)))}


def _namespaces() -> list[str]:
    return sorted(path.name for path in _NAMESPACES.glob(f"{_PREFIX}*"))


def _lab_of(namespace: str) -> str:
    return namespace.rpartition("-")[0]


def _end_inside(namespaces: list[str]) -> int:
    """Kill what still lives in these namespaces, frozen or not."""
    inside = []
    for name in namespaces:
        for word in ask("ip", "netns", "pids", name).stdout.split():
            with contextlib.suppress(psutil.Error):
                inside.append(psutil.Process(int(word)))
    for process in inside:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(inside, timeout=_GRACE_S)
    return len(inside)


def _began(pid: int) -> int | None:
    """When a process began, in the kernel's ticks since boot; None when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *rest = text.rpartition(")")[2].split()
    return None if state in "ZX" else int(rest[18])
