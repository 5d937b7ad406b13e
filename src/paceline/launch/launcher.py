"""The port: what every launcher can do. `replay.py` is the fake that anybody may use."""

from __future__ import annotations

from typing import BinaryIO, Protocol

from paceline.launch.command import Command

__all__ = ["Launch", "Launcher"]


class Launch(Protocol):
    """One trial under way."""

    def exit_code(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""

    def ask_stacks(self, pid: int) -> bool:
        """Ask one worker for the stacks of its threads; False when it is no longer there."""

    def end(self) -> None:
        """End every process of the trial. Safe to call twice; afterwards none is left."""


class Launcher(Protocol):
    """Starts trials."""

    def start(self, command: Command, output: BinaryIO) -> Launch:
        """Start one trial; its launcher's output goes to `output`."""

    def end_leftovers(self, study_tag: str) -> int:
        """End what an earlier desk left behind under this study; how many processes there were."""
