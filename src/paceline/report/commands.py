"""Commands that a reader can copy: what stands for the study in a hint becomes the study's own folder."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

from paceline.records import Analysis

__all__ = ["filled", "with_commands"]

_PLACE = re.compile(r"\bSTUDY\b")


def filled(text: str, folder: str) -> str:
    """`paceline show STUDY` for the study in this folder, which is quoted for a shell where that is needed."""
    return _PLACE.sub(lambda _: folder, text)


def _filled(text: str | None, folder: str) -> str | None:
    return None if text is None else filled(text, folder)


def with_commands(analysis: Analysis) -> Analysis:
    """The Analysis with hints that name its own folder, where it is known."""
    folder = analysis.source.get("folder")
    if not isinstance(folder, str) or not folder:
        return analysis
    quoted = shlex.quote(folder)
    return replace(
        analysis,
        findings=tuple(
            replace(f, hint=_filled(f.hint, quoted), command=_filled(f.command, quoted))
            for f in analysis.findings
        ),
    )
