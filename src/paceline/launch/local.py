"""Trials on this machine: torchrun, or the script itself, as a child that cannot outlive the desk.

The child is a tiny Python that asks the kernel for SIGKILL when its parent dies, checks that the parent is
still there, and becomes the command. (Not preexec_fn: that is unsafe in a process with threads.) The kernel's
promise holds for the thread that started the child, so trials are started from the main thread.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import BinaryIO

from paceline.launch.command import Command
from paceline.launch.processes import STACKS_SIGNAL, end_tagged, send

__all__ = ["LocalLauncher"]

_GRACE_S = 2.0
_BOUND_TO_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as problem:
    sys.exit(f"{sys.argv[2]}: {problem.strerror}")
"""


class LocalLaunch:
    """One trial under way on this machine."""

    def __init__(self, process: subprocess.Popen[bytes], tag: str) -> None:
        self._process = process
        self._tag = tag

    def exit_code(self) -> int | None:
        return self._process.poll()

    def ask_stacks(self, pid: int) -> bool:
        return send(pid, self._tag, STACKS_SIGNAL)

    def end(self) -> None:
        end_tagged(self._tag, grace_s=_GRACE_S)
        if self._process.poll() is None:  # it was just becoming another program, and showed no environment
            self._process.kill()
            end_tagged(self._tag, grace_s=_GRACE_S)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_GRACE_S)


@dataclass(frozen=True, slots=True)
class LocalLauncher:
    """Starts trials on this machine."""

    def start(self, command: Command, output: BinaryIO) -> LocalLaunch:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _BOUND_TO_PARENT, str(os.getpid()), *command.argv],
            cwd=command.directory,
            env={**os.environ, **command.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the desk, which then ends the trial in order
        )
        return LocalLaunch(process, command.tag)

    def end_leftovers(self, study_tag: str) -> int:
        return end_tagged(study_tag, grace_s=_GRACE_S)
