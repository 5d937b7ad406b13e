"""`paceline horovod run` and `paceline horovod migrate`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from paceline.errors import UsageError
from paceline.launch.horovod import command_of, environment_of, local_slots, provide_in
from paceline.migrate import migrated, unified_diff

__all__ = ["CONTEXT", "horovod"]

_RUN = "paceline horovod run -np 4 python train.py"
_MIGRATE = "paceline horovod migrate train.py"


CONTEXT = {"allow_interspersed_args": False}  # what follows `run` belongs to the command, options too


def horovod(
    words: Annotated[list[str], typer.Argument(metavar="run|migrate …", help="What to do, and with what.")],
) -> None:
    """Run a script written for Horovod, or show it on plain DistributedDataParallel.

    paceline horovod run -np 4 [-H localhost:4] python train.py …

    paceline horovod migrate train.py [--write]
    """
    action, *rest = words
    if action == "run":
        raise typer.Exit(_run(rest))
    if action == "migrate":
        raise typer.Exit(_migrate(rest))
    raise UsageError(f"horovod {action!r} is neither run nor migrate", hint=_RUN)


def _run(args: Sequence[str]) -> int:
    """Start the command once per worker, wait for it; its exit code. Options are those of horovodrun."""
    workers: int | None = None
    restarts = 0
    slots: int | None = None
    rest = list(args)
    while rest and rest[0].startswith("-"):
        option, equals, value = rest.pop(0).partition("=")
        if option == "--":
            break
        if option not in ("-np", "--num-proc", "-H", "--hosts", "--reset-limit"):
            raise UsageError(f"horovod run does not know {option}", hint=_RUN)
        if not equals:
            value = rest.pop(0) if rest else ""
        if option in ("-H", "--hosts"):
            slots = local_slots(value)
        elif option == "--reset-limit" and value.isdigit():
            restarts = int(value)
        elif option in ("-np", "--num-proc") and value.isdigit() and int(value) > 0:
            workers = int(value)
        else:
            raise UsageError(f"{option} {value!r} is not a number it can use", hint=_RUN)
    workers = workers or slots
    if workers is None or not rest:
        missing = "how many workers to start (-np)" if workers is None else "the command to run"
        raise UsageError(f"horovod run was not told {missing}", hint=_RUN)
    if slots is not None and workers > slots:
        raise UsageError(
            f"-np {workers} asks for more workers than the {slots} slots of -H", hint=f"-np {slots}"
        )
    with tempfile.TemporaryDirectory(prefix="paceline-horovod-") as folder:
        provide_in(folder)
        environment = environment_of(
            folder, workers=workers, cores=os.cpu_count() or 1, environment=os.environ
        )
        return subprocess.run(
            command_of(rest, workers=workers, restarts=restarts), env=environment, check=False
        ).returncode


def _migrate(args: Sequence[str]) -> int:
    write = "--write" in args
    names = [arg for arg in args if arg != "--write"]
    if len(names) != 1 or names[0].startswith("-"):
        raise UsageError(f"horovod migrate takes one script, not {' '.join(args) or 'none'}", hint=_MIGRATE)
    path = Path(names[0])
    if not path.is_file():
        raise UsageError(f"there is no script {path}", hint=_MIGRATE)
    before = path.read_text(encoding="utf-8")
    result = migrated(before, name=str(path))
    print(unified_diff(before, result.text, name=str(path)), end="")
    for line, what in result.by_hand:
        print(f"paceline: {path}:{line}: {what}", file=sys.stderr)
    if write and result.text != before:
        path.write_text(result.text, encoding="utf-8")
        print(
            f"paceline: {path} is changed; start it with torchrun --nproc-per-node N {path}", file=sys.stderr
        )
    return 0
