"""The programs a laboratory is made with: ip and tc, run as root, their complaints turned into one sentence."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

from paceline.core.errors import PacelineError

__all__ = ["ask", "do", "require_root"]


def require_root() -> None:
    """A clear refusal where the kernel would give an obscure one."""
    if os.geteuid() != 0:
        raise PacelineError(
            "a laboratory needs root: it makes network namespaces, shapes links and sets CPU quotas",
            hint="sudo paceline lab …, or as root in a container with CAP_SYS_ADMIN and CAP_NET_ADMIN",
        )
    missing = [name for name in ("ip", "tc", "nsenter") if shutil.which(name) is None]
    if missing:
        raise PacelineError(
            f"a laboratory needs {', '.join(missing)}, and this machine has no such program",
            hint="install iproute2 and util-linux",
        )


def ask(*command: str) -> subprocess.CompletedProcess[str]:
    """Run one command whatever comes of it."""
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def do(*command: str) -> str:
    """Run one command that must succeed; what it printed."""
    done = ask(*command)
    if done.returncode:
        raise PacelineError(
            f"{_words(command)} failed: {(done.stderr or done.stdout).strip() or f'exit code {done.returncode}'}",
            hint="a container needs CAP_SYS_ADMIN and CAP_NET_ADMIN for a laboratory",
        )
    return done.stdout


def _words(command: Sequence[str]) -> str:
    text = " ".join(command)
    return text if len(text) <= 160 else text[:159] + "…"
