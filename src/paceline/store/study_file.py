"""study.toml, read and written. Unknown (None) is left out, as TOML has no null."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from paceline.core.errors import StudyError
from paceline.core.json_text import refuse_newer
from paceline.records import Study
from paceline.store.atomic import write_text
from paceline.store.study_schema import FORMAT, StudyFile, study_file, study_of

__all__ = ["newest_study", "read_study", "study_text", "toml_text", "write_study"]


def newest_study(place: Path) -> Path:
    """The folder of the study here, or in a folder beside, that something was written to last."""
    found = [*place.glob("study.toml"), *place.glob("*/study.toml")]
    if not found:
        raise StudyError("there is no study here", hint="paceline study SCRIPT makes one; or name its folder")
    return max((path.parent for path in found), key=_last_written)


def _last_written(folder: Path) -> float:
    """A trial that ends renews its folder; a report that is rendered again is nothing new."""
    return max(path.stat().st_mtime for path in (folder / "study.toml", folder / "trials") if path.exists())


def read_study(path: Path) -> Study:
    """The Study that this file asks for; a StudyError that names the line or the field if it cannot."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StudyError(f"there is no study at {path}", hint="paceline study SCRIPT makes one") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise StudyError(f"cannot read {path}: {problem}", hint="correct the file") from problem
    refuse_newer(path, data.get("format"), known=FORMAT)
    try:
        return study_of(StudyFile.model_validate(data))
    except ValidationError as problem:
        first = problem.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise StudyError(
            f"{path}: {field}: {first['msg']} (found {first['input']!r})",
            hint="paceline schema study lists what study.toml may hold",
        ) from None


def write_study(path: Path, study: Study) -> None:
    """Record what was asked; a StudyError where it has bytes that TOML cannot hold."""
    try:
        text = study_text(study)
    except ValidationError as problem:
        first = problem.errors(include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise StudyError(
            f"{path} cannot hold {field}: it is not UTF-8", hint="rename the file, or change the argument"
        ) from None
    write_text(path, "# What was asked. `paceline study` on this folder runs what is missing.\n" + text)


def study_text(study: Study) -> str:
    """The study as the TOML that asks for it."""
    return toml_text(
        study_file(study).model_dump(exclude_none=True, exclude={"workers"} if study.nodes else None)
    )


def toml_text(data: Mapping[str, object]) -> str:
    """TOML of plain values, lists and one level of tables."""
    plain = [
        f"{_key(key)} = {_value(value)}\n" for key, value in data.items() if not isinstance(value, Mapping)
    ]
    for key, table in data.items():
        if isinstance(table, Mapping) and table:
            plain.append(f"\n[{_key(key)}]\n")
            plain += [f"{_key(name)} = {_value(value)}\n" for name, value in table.items()]
    return "".join(plain)


def _key(key: str) -> str:
    return key if key.replace("_", "").isalnum() and key.isascii() else _value(key)


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case list():
            return "[" + ", ".join(_value(item) for item in value) + "]"
    # JSON escapes are TOML escapes, except that TOML also wants DEL escaped
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
