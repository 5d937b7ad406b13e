"""`paceline join`: serve a study that runs on another machine, as one of its nodes."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Annotated

import typer

from paceline.core import units
from paceline.core.errors import Interrupted, UsageError
from paceline.launch.interpreter import interpreter
from paceline.launch.nodes.gate import PORT, invitation
from paceline.launch.nodes.join import Here, joined_study

__all__ = ["join"]


def join(
    study: Annotated[
        str,
        typer.Argument(metavar="TOKEN@HOST[:PORT]", help="As the study printed it.", show_default=False),
    ],
    python: Annotated[
        str | None, typer.Option(help="The Python of this node that has torch.  [default: as on the desk]")
    ] = None,
    script: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Where the script lies here.  [default: as on the desk]"),
    ] = None,
    wait: Annotated[str, typer.Option(help="How long to wait for the study to answer.")] = "10min",
) -> None:
    """Let a study use this machine as one of its nodes. Ends when the study does; Ctrl-C leaves it.

    paceline join 5f2c…@10.0.0.1:40123

    The study starts training processes here, and nothing else. Whoever holds the token may.
    """
    asked = invitation(study)
    if asked.token is None or asked.host is None:
        raise UsageError(
            f"{study!r} is not TOKEN@HOST:PORT", hint="copy the whole line that the study printed"
        )
    asked = replace(asked, port=asked.port or PORT)
    if script is not None and not os.path.isdir(script):
        raise UsageError(
            f"there is no folder {script!r}", hint="--script names the folder of the script here"
        )
    here = Here(
        python=None if python is None else interpreter(python),
        script_folder=None if script is None else os.path.abspath(script),
    )
    from paceline.cli.measure import terminated_like_interrupted  # here: it imports what a study needs

    try:
        with terminated_like_interrupted():
            end = joined_study(asked, here, wait_s=units.duration(wait), say=_say)
    except KeyboardInterrupt:
        raise Interrupted(
            "left the study; its run here has ended", hint="join again with the same line"
        ) from None
    _say(end)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
