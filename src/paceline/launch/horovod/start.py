"""Start one command per host, hand each the code it needs, wait for all; one that fails ends the others.

Every host's script ends its workers when its stdin closes, so nothing is left behind when the desk goes away.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, sleep

from paceline.core.errors import PacelineError, UsageError

__all__ = ["HostsFailed", "archive_of", "start_all"]

_GRACE_S = 10.0  # for the other hosts to say themselves that a peer is gone


class HostsFailed(PacelineError):
    """The workers of one host ended with an error."""


def archive_of(folder: Path) -> bytes:
    """The folder as one tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(folder, arcname=".")
    return buffer.getvalue()


def start_all(
    commands: Sequence[Sequence[str]], *, names: Sequence[str], archive: bytes, grace_s: float = _GRACE_S
) -> None:
    """All commands to their end, each with the archive on its stdin."""
    for program in sorted({command[0] for command in commands}):
        if shutil.which(program) is None:
            raise UsageError(
                f"there is no {program} here to start workers on other hosts with",
                hint="on every host: torchrun --nnodes N --node-rank I --nproc-per-node SLOTS "
                "--master-addr FIRST_HOST --master-port 29500 -m paceline_horovod train.py",
            )
    started = [subprocess.Popen(list(command), stdin=subprocess.PIPE) for command in commands]
    try:
        for process in started:
            _hand_over(process, archive)
        failed = _first_failure(started)
    finally:
        _end(started, grace_s)
    if failed is not None:
        raise HostsFailed(
            f"{names[failed]}: {_meaning(commands[failed][0], started[failed].returncode)}",
            hint="read what it printed above",
        )


def _hand_over(process: subprocess.Popen[bytes], archive: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended already; its exit code says why
        process.stdin.write(archive)
        process.stdin.flush()


def _first_failure(started: Sequence[subprocess.Popen[bytes]]) -> int | None:
    while True:
        codes = [process.poll() for process in started]
        failed = next((i for i, code in enumerate(codes) if code not in (None, 0)), None)
        if failed is not None or all(code is not None for code in codes):
            return failed
        sleep(0.1)


def _end(started: Sequence[subprocess.Popen[bytes]], grace_s: float) -> None:
    """Let the hosts end by themselves for a while, then close their stdin: their scripts end the workers."""
    until_s = monotonic() + (grace_s if any(process.poll() is not None for process in started) else 0.0)
    for process in started:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=max(0.0, until_s - monotonic()))
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
    for process in started:
        try:
            process.wait(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _meaning(program: str, code: int) -> str:
    if os.path.basename(program) == "ssh" and code == 255:
        return "ssh could not connect (exit code 255)"
    if code == 72:
        return "the folder of this training is not there; it must lie on every host under the same path"
    return f"its workers ended with exit code {code}"
