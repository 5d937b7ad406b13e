"""What is asked of Slurm: one allocation for all points, or an array of equal ones, and the script that asks for it.

The script is text from data: the same request gives the same script, which a person can read, edit and submit.

    #SBATCH lines        one per request, values quoted for sbatch's own parser
    modules, prologue    the site's own lines, before anything starts
    exec PYTHON -m …     the desk, inside the allocation: it runs what is missing, every trial as a step (srun);
                         in a task of an array what no other task has claimed

exec makes the desk the batch process itself, so that Slurm's signals reach it. A prologue line is shell as the
user wrote it; everything else is quoted, and nothing that is more than one line comes in: sbatch_script checks all.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from paceline.core.errors import UsageError
from paceline.records import Allocation

__all__ = ["Array", "Job", "checked_allocation", "sbatch_script", "signal_lead_s", "time_text"]

_OPTION = re.compile(r"[a-z][a-z0-9-]*(=.*)?")
_PLAIN = re.compile(r"[\w@%+=:,./~^\[\]{}*&|!-]*", re.ASCII)
# what this script decides: given twice, sbatch would silently take the last one
_OURS = {
    "array",
    "nodes",
    "ntasks",
    "ntasks-per-node",
    "output",
    "job-name",
    "open-mode",
    "signal",
    "requeue",
    "chdir",
    "error",  # what the desk says there would be missing in its log
    "wait",  # sbatch would not return
    "test-only",
    "wrap",
}
_LEAD_S = 60.0  # Slurm's clock for signals is a minute coarse


@dataclass(frozen=True, slots=True)
class Array:
    """A job as so many equal tasks, each with an allocation of its own."""

    tasks: int
    at_once: int | None = None  # None: as many as Slurm can place


@dataclass(frozen=True, slots=True)
class Job:
    """What the script of one study needs to know beside the Allocation."""

    name: str
    folder: str  # the study, absolute
    python: str  # the desk's own interpreter
    nodes: int
    cpus_per_node: int | None  # None: all of the node, or whatever the partition gives
    output: str  # the desk's output, absolute
    array: Array | None = None


def checked_allocation(asked: Allocation) -> Allocation:
    """The same, or a UsageError that names the value which no script can hold."""
    named = {
        name: getattr(asked, name) for name in ("partition", "account", "gres", "constraint", "container")
    }
    for name, value in named.items():
        if value is not None and (not value or _unfit(value)):
            raise UsageError(f"--{name} {value!r} is not one line of text", hint=f"--{name} NAME")
    for flag, values in (("load-module", asked.modules), ("prologue", asked.prologue)):
        for value in values:
            if not value.strip() or _unfit(value):
                raise UsageError(
                    f"--{flag} {value!r} is not one line of text", hint=f"give --{flag} once per line"
                )
    if asked.time_s is not None and not 60 <= asked.time_s < 366 * 86400:
        raise UsageError(
            f"--time {asked.time_s:g} s is not a time that Slurm can give", hint="--time 30min or --time 2h"
        )
    for option in asked.options:
        name = option.partition("=")[0]
        if not _OPTION.fullmatch(option) or _unfit(option):
            raise UsageError(
                f"--sbatch-option {option!r} is not NAME=VALUE with a long option's name",
                hint="--sbatch-option qos=high",
            )
        if name in _OURS:
            raise UsageError(
                f"--sbatch-option {option!r}: the script decides --{name} itself",
                hint="--emit sbatch writes a script that you can edit and submit",
            )
    return asked


def sbatch_script(asked: Allocation, job: Job) -> str:
    """The whole script, ending in a newline; a UsageError where a value would begin a line of its own."""
    checked_allocation(asked)
    for what, value in (
        ("the study's folder", job.folder),
        ("the folder of its output", job.output),
        ("the name of the job", job.name),
        ("Paceline's Python", job.python),
    ):
        if _unfit(value):
            raise UsageError(
                f"{what} {value!r} is not one line of text, so no sbatch script can name it",
                hint="rename the folder, or --out FOLDER",
            )
    lines = ["#!/bin/bash", "# A study of Paceline on Slurm: read it, edit it, submit it with sbatch."]
    lines += [f"#SBATCH --{_directive(name, value)}" for name, value in _requests(asked, job)]
    lines += [f"#SBATCH --{_directive(*option.partition('=')[::2])}" for option in asked.options]
    lines.append("")
    if asked.modules:
        lines.append(
            "command -v module > /dev/null || source /etc/profile  # where only login shells know it"
        )
        lines += [*(f"module load {shlex.quote(module)} || exit 1" for module in asked.modules), ""]
    if asked.prologue:
        lines += [*asked.prologue, ""]
    lines += [
        f"python={shlex.quote(job.python)}",
        f"study={shlex.quote(job.folder)}",
        "if ! \"$python\" -c 'import paceline'; then",
        '  echo "paceline: node $(hostname) cannot import paceline with $python" >&2',
        '  echo "  try: install it where compute nodes see it; --load-module or --prologue for what it needs" >&2',
        "  exit 1",
        "fi",
        _what_it_does(job),
        'exec "$python" -m paceline study "$study"',
    ]
    return "\n".join(lines) + "\n"


def signal_lead_s(time_s: float | None) -> int:
    """How long before the time limit the desk is told, to end a trial in order: a minute, of short times a quarter."""
    return int(_LEAD_S if time_s is None else min(_LEAD_S, time_s / 4))


def time_text(time_s: float) -> str:
    """Slurm's own notation, rounded up to whole minutes: 1-02:30:00."""
    minutes = -int(-time_s // 60)
    days, minutes = divmod(minutes, 24 * 60)
    hours, minutes = divmod(minutes, 60)
    return f"{f'{days}-' if days else ''}{hours:02}:{minutes:02}:00"


def _requests(asked: Allocation, job: Job) -> list[tuple[str, str]]:
    """Options of sbatch in the order in which a person would ask: what, where, how long, how it ends."""
    given = [
        ("job-name", job.name),
        ("array", None if job.array is None else _array_text(job.array)),
        ("nodes", str(job.nodes)),
        ("ntasks-per-node", "1"),
        ("cpus-per-task", None if job.cpus_per_node is None else str(job.cpus_per_node)),
        ("gres", asked.gres),
        ("partition", asked.partition),
        ("account", asked.account),
        ("constraint", asked.constraint),
        ("exclusive", "" if asked.exclusive else None),
        ("time", None if asked.time_s is None else time_text(asked.time_s)),
        (
            "output",
            job.output.replace("%", "%%") + ("/job-%j.log" if job.array is None else "/job-%A_%a.log"),
        ),
        ("open-mode", "append"),
        ("requeue", ""),
        ("signal", f"B:TERM@{signal_lead_s(asked.time_s)}"),
    ]
    return [(name, value) for name, value in given if value is not None]


def _array_text(array: Array) -> str:
    """1-24%4: tasks are numbered from one; after the % how many may run at once."""
    return f"1-{array.tasks}" + ("" if array.at_once is None else f"%{array.at_once}")


def _what_it_does(job: Job) -> str:
    if job.array is None:
        return "# Runs what is missing, each run as a step of this allocation. Started again, it goes on."
    return "# Takes one missing run after the other that no other task has taken, while its time lasts."


def _directive(name: str, value: str) -> str:
    """`name=value` as sbatch reads it back: quotes and backslashes as a shell would have them."""
    if not value:
        return name
    plain = _PLAIN.fullmatch(value) is not None
    quoted = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{name}={value if plain else quoted}"


def _unfit(text: str) -> bool:
    """Control characters, line ends first of all, begin a line nobody asked for; half a pair has no bytes."""
    return any(
        ord(character) < 32
        or 127 <= ord(character) < 160
        or character in "\u2028\u2029"
        or 0xD800 <= ord(character) < 0xE000
        for character in text
    )
