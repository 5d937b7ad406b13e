"""`paceline doctor`: is this machine fit to train on several workers?"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from paceline.cli.text.plan import print_json
from paceline.cli.text.terminal import bold, fitted, terminal_width
from paceline.core.errors import ThresholdFailed, UsageError
from paceline.core.words import LEVELS
from paceline.doctor.checks import Check, State, checkup
from paceline.doctor.script import script_checks
from paceline.launch.interpreter import interpreter
from paceline.launch.machine import looked_at

__all__ = ["doctor"]

_WORDS = {"ok": "ok", "unknown": "?", **LEVELS}
_COLOURS = {"void": 31, "doubt": 33, "ok": 32}
_COUNTED: dict[State, str] = {
    "ok": "fine",
    "note": "to know",
    "doubt": "to look at",
    "void": "wrong",
    "unknown": "not known",
}
_TITLE = 18


def doctor(
    script: Annotated[
        Path | None, typer.Argument(metavar="SCRIPT", help="A script to look into as well.")
    ] = None,
    python: Annotated[
        str | None, typer.Option(metavar="PATH", help="The Python that has the script's torch.")
    ] = None,
    folder: Annotated[Path, typer.Option(metavar="FOLDER", help="Where studies or data would lie.")] = Path(),
    json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON, and nothing else.")] = False,
) -> None:
    """Look for what costs people their first hour: torch, GPUs, limits, load, disk, network. Starts no training.

    paceline doctor train.py
    """
    own = () if script is None else script_checks(_source(script), str(script))
    checks = (*checkup(looked_at(interpreter(python), folder)), *own)
    if json:
        print_json([asdict(check) for check in checks])
    else:
        for check in checks:
            print("\n".join(_lines(check, terminal_width())))
        print(f"\n{_summary(checks)}")
    wrong = [check.title for check in checks if check.state == "void"]
    if wrong:
        raise ThresholdFailed(
            f"no training can work here: {', '.join(wrong)}", hint="the lines marked ERROR say what to do"
        )


def _lines(check: Check, width: int | None) -> list[str]:
    mark = f"{_WORDS[check.state]:<8}"
    line = f"{mark}{check.title:<{_TITLE}} {check.said}"
    shown = list(fitted(line, width, indent=len(mark) + _TITLE + 1))
    if width is not None and check.state in _COLOURS:
        shown[0] = bold(mark, _COLOURS[check.state]) + shown[0][len(mark) :]
    nexts = [check.command] if check.command else []
    if check.hint and check.state != "ok":
        nexts.append(check.hint)
    return [*shown, *(f"{'':<{len(mark) + _TITLE + 1}}next: {each}" for each in nexts if check.state != "ok")]


def _summary(checks: tuple[Check, ...]) -> str:
    counts = Counter(check.state for check in checks)
    parts = [f"{counts[state]} {word}" for state, word in _COUNTED.items() if counts[state]]
    return f"{len(checks)} checks: {', '.join(parts)}. What only a run shows: paceline study"


def _source(script: Path) -> str:
    try:
        return script.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{script} is not UTF-8 text", hint="name a Python script") from None
    except OSError as problem:
        raise UsageError(f"{script} cannot be read: {problem.strerror}", hint="correct its path") from None
