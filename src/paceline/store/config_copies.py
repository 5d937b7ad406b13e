"""The copies of a user's configuration files that a trial runs with."""

from __future__ import annotations

from pathlib import Path

from paceline.plan.config_files import copies, edited, file_key, is_file_key
from paceline.records import Point, Study
from paceline.store.atomic import write_text

__all__ = ["write_config_copies"]


def write_config_copies(study: Study, point: Point, trial: Path) -> None:
    """Each varied file once, with every value that this point changes in it."""
    for name, copy in copies(point, str(trial)).items():
        text = (Path(study.directory or ".") / name).read_text(encoding="utf-8")
        for flag, value in point.varied:
            if is_file_key(flag) and file_key(flag)[0] == name:
                text = edited(text, name, file_key(flag)[1], value)
        Path(copy).parent.mkdir(exist_ok=True)
        write_text(Path(copy), text)
