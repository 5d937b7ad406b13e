"""`paceline`: finds the verb, imports its file only then, and turns errors into one sentence and an exit code.

Exit codes: 0 done · 1 the request or the tool is at fault · 2 nothing usable was measured ·
3 a --fail-if condition holds · 130 interrupted.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, TextIO

import typer
from typer._click.core import Command, Context
from typer._click.exceptions import ClickException
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from paceline import __version__
from paceline.cli.options.sections import sectioned
from paceline.cli.text.guard import guarded, unguarded
from paceline.cli.text.letters import PLAIN
from paceline.core.errors import Interrupted, PacelineError

__all__ = ["main"]

# verb: module, function, one line of help; the module is imported when the verb is used, never for --help
VERBS = {
    "study": ("paceline.cli.verbs.study", "study", "Measure a training script at several worker counts."),
    "join": ("paceline.cli.verbs.join", "join", "Let a study on another machine use this one as a node."),
    "plan": ("paceline.cli.verbs.study", "plan", "Show what a study would run and cost, and run nothing."),
    "show": ("paceline.cli.verbs.show", "show", "Show what a study has found so far."),
    "compare": (
        "paceline.cli.verbs.compare",
        "compare",
        "Compare two studies; fail a pipeline on a threshold.",
    ),
    "analyze": ("paceline.cli.verbs.analyze", "analyze", "Analyse a table measured anywhere, or a study."),
    "project": ("paceline.cli.verbs.project", "project", "Project to worker counts that were not measured."),
    "advise": ("paceline.cli.verbs.advise", "advise", "Say what to use: fastest, cheapest, by a deadline."),
    "probe": ("paceline.cli.verbs.probe", "probe", "Measure links and devices: latency, bandwidth, rates."),
    "report": (
        "paceline.cli.verbs.report",
        "report",
        "Render a page, or Markdown, LaTeX, CSV, text, figures.",
    ),
    "serve": ("paceline.cli.verbs.serve", "serve", "Show reports live in a browser while studies run."),
    "horovod": (
        "paceline.cli.verbs.horovod",
        "horovod",
        "Run a script written for Horovod, or migrate it to DDP.",
    ),
    "train": ("paceline.cli.verbs.train", "train", "Train to the end; curve, plateau, time to accuracy."),
    "recipe": ("paceline.cli.verbs.recipe", "recipe", "Repeat a classic multi-worker lab, and answer it."),
    "data": ("paceline.cli.verbs.data", "data", "Download published data, checked and resumed."),
    "lab": (
        "paceline.cli.verbs.lab",
        "lab",
        "Several hosts on one machine, links shaped, to see what they do.",
    ),
    "doctor": (
        "paceline.cli.verbs.doctor",
        "doctor",
        "Look for what is wrong with this machine or script.",
    ),
    "schema": (
        "paceline.cli.verbs.schema",
        "schema",
        "Print the JSON schema of study.toml or analysis.json.",
    ),
}

_EPILOG = "Exit codes: 0 done, 1 wrong request, 2 nothing measured, 3 threshold failed, 130 interrupted."
_GOES_ON = dict.fromkeys(
    ("study", "recipe", "train", "data"), "the same command again goes on with what is missing"
)


class Verbs(TyperGroup):
    """The verbs, each imported when it is used."""

    def list_commands(self, ctx: Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """Enough of a verb for the list of verbs."""
        if cmd_name not in VERBS:
            return None
        return TyperCommand(cmd_name, help=VERBS[cmd_name][2], rich_markup_mode=None)

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """The whole verb, imported now."""
        name, stub, rest = super().resolve_command(ctx, args)
        return name, None if stub is None or name is None else load(name), rest


def load(verb: str) -> Command:
    """Import one verb."""
    module, function, _ = VERBS[verb]
    loaded = importlib.import_module(module)
    action: Callable[..., Any] = getattr(loaded, function)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    look = sectioned(getattr(loaded, "SECTIONS", {}), getattr(loaded, "FOLDED", ()))
    app.command(name=verb, cls=look, context_settings=getattr(loaded, "CONTEXT", None))(action)
    return get_command(app)


def main(args: Sequence[str] | None = None) -> None:
    """The console entry point."""
    _open_closed_streams()
    sys.exit(exit_code(sys.argv[1:] if args is None else args))


def exit_code(args: Sequence[str]) -> int:
    """Carry out one command line; what it prints, and the exit code it deserves."""
    with guarded():
        return _carried_out(args)


def _carried_out(args: Sequence[str]) -> int:
    for stream in map(unguarded, (sys.stdout, sys.stderr)):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=PLAIN)  # a terminal that cannot show ± shows +-, not a traceback
    app = typer.Typer(cls=Verbs, add_completion=True, rich_markup_mode=None, epilog=_EPILOG)
    app.callback()(paceline)
    try:
        code = get_command(app).main(_asked(args), prog_name="paceline", standalone_mode=False)
        sys.stdout.flush()  # here: what cannot be written when the interpreter ends is told in a traceback
    except ClickException as problem:
        say_error(problem.format_message(), _usage_hint(args))
        return 1
    except PacelineError as problem:
        say_error(problem.message, problem.hint)
        return problem.exit_code
    except typer.Abort:
        code = Interrupted.exit_code
    except BrokenPipeError:
        return _reader_left(args)
    except SystemExit as ending:
        if isinstance(ending.__context__, BrokenPipeError):  # typer's own answer to it
            return _reader_left(args)
        raise
    except OSError as problem:
        say_error(*_system_text(problem))
        _discard(sys.stdout)
        return 1
    if code == Interrupted.exit_code:  # Ctrl-C where nobody else has said so
        say_error("stopped", _GOES_ON.get(_verb(args) or ""))
    return code if isinstance(code, int) else 0


def _say_version(wanted: bool) -> None:
    if wanted:
        print(f"paceline {__version__}")
        raise typer.Exit


def paceline(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """How many workers should I train on? Measures any training script and tells the truth about how it scales.

    paceline study --workers 1,2,4 train.py -- --batch-size 32
    """


def say_error(message: str, hint: str | None) -> None:
    """What happened, then one thing to do."""
    try:
        print(f"paceline: {message}", file=sys.stderr)
        if hint:
            print(f"  try: {hint}", file=sys.stderr)
    except OSError:  # a stderr that is closed or full has nobody who reads it
        _discard(sys.stderr)


def _system_text(problem: OSError) -> tuple[str, str]:
    """What the system refused, and what to do; of a folder that could not be copied, the first file that could not."""
    from paceline.store.atomic import remedy  # here: --help needs no store

    name = problem.filename or "the system"
    if isinstance(problem, shutil.Error) and isinstance(problem.args[0], list):
        _, name, why = problem.args[0][0]
        number = re.match(r"\[Errno (\d+)\]", str(why))  # copytree keeps the words only
        problem = OSError(int(number[1]), os.strerror(int(number[1]))) if number else OSError(why)
    return f"{name}: {problem.strerror or problem}", remedy(problem)


def _asked(args: Sequence[str]) -> list[str]:
    """`help` and `help VERB` as people type them; without a word there is help."""
    if not args or args[0] == "help":
        return [*args[1:2], "--help"]
    return list(args)


def _verb(args: Sequence[str]) -> str | None:
    return next((arg for arg in args if arg in VERBS), None)


def _first_word(args: Sequence[str]) -> str:
    """What should have been a verb."""
    return next((arg for arg in args if arg != "help"), "")


def _reader_left(args: Sequence[str]) -> int:
    """`| head` has seen enough, and there is nobody to tell; but what goes on when repeated was not done."""
    _discard(sys.stdout)
    return 1 if _verb(args) in _GOES_ON else 0


def _open_closed_streams() -> None:
    """Started with `>&-` there is no stdout: the first file opened would take its number, and what is printed."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115 - open to the end


def _discard(stream: TextIO) -> None:
    """Let what is still to be written go nowhere, so that the end of the interpreter does not try again."""
    with contextlib.suppress(io.UnsupportedOperation):  # a stream without a file, as tests give it
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _usage_hint(args: Sequence[str]) -> str:
    verb = _verb(args)
    if verb is None and (alike := get_close_matches(_first_word(args), VERBS, n=1)):
        return f"paceline {alike[0]}"
    if verb in ("study", "plan") and "--" not in args:
        return f"paceline {verb} [options] SCRIPT -- script args (arguments of the script go after --)"
    return f"paceline {verb} --help" if verb else "paceline --help"
