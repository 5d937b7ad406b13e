"""A folder that several nodes of one machine share as over a network: each sees it through a mount of its own.

bindfs (FUSE) passes on what is written, and the kernel believes what it has seen for a while, as a client of NFS does:
names that were not there, names that are, sizes and times. A node's mount lies at the same path, in a mount namespace.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Shared:
    """The folder as this process sees it, as the server has it, each node's view, and the words that give it to one."""

    here: Path
    server: Path
    views: dict[str, Path]
    before: dict[str, tuple[str, ...]]


def absent() -> str | None:
    """Why there is no such folder here."""
    if os.geteuid() != 0:
        return "mounting needs root"
    if shutil.which("bindfs") is None or shutil.which("unshare") is None:
        return "bindfs is not installed (Debian: bindfs)"
    return None if os.path.exists("/dev/fuse") else "there is no /dev/fuse"


@contextmanager
def shared_late(folder: Path, nodes: tuple[str, ...], *, late_s: float) -> Iterator[Shared]:
    """Three or more sights of one folder, each up to so late. Nothing stays mounted."""
    here, server = folder / "shared", folder / "server"
    views = {name: folder / f"view.{name}" for name in nodes}
    options = ",".join(f"{kind}_timeout={late_s:g}" for kind in ("attr", "entry", "negative"))
    with ExitStack() as ending:
        for path in (here, server, *views.values()):
            path.mkdir()
        for path in (here, *views.values()):
            subprocess.run(["bindfs", "-o", options, server, path], check=True, capture_output=True)
            ending.callback(subprocess.run, ["umount", "--lazy", path], check=False, capture_output=True)
        enter = 'mount --bind "$0" "$1" && shift && exec "$@"'
        before = {
            name: ("unshare", "--mount", "--propagation", "private", "sh", "-c", enter, str(view), str(here))
            for name, view in views.items()
        }
        yield Shared(here, server, views, before)
