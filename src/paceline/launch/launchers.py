"""Before anything starts: the launcher is there, files can be read, and who uses Accelerate without it is told."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from paceline.core.errors import UsageError
from paceline.plan.config_files import CONFIG, edited, file_key, is_file_key, parsed
from paceline.records import Finding, Study

__all__ = ["launcher_findings", "refuse_missing_launcher", "refuse_unusable_files"]

_USES_ACCELERATE = re.compile(r"^\s*(?:from|import)\s+accelerate\b", re.MULTILINE)
_LOOK_S = 60.0


def refuse_unusable_files(study: Study) -> None:
    """A UsageError for a configuration that is not there, does not parse, or has no such key."""
    place = Path(study.directory or ".")
    for flag, values in study.vary:
        if flag == CONFIG:
            for name in values:
                parsed(_text(place / name, name), name)
        elif is_file_key(flag):
            name, key = file_key(flag)
            text = _text(place / name, name)
            for value in values:
                parsed(edited(text, name, key, value), name)


def refuse_missing_launcher(study: Study, python: str) -> None:
    """A UsageError where the Python of the script lacks the launcher."""
    name = study.workload.start
    if name not in ("accelerate", "deepspeed"):
        return
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({name!r}) is None)"
    if subprocess.run([python, "-c", code], capture_output=True, timeout=_LOOK_S, check=False).returncode:
        raise UsageError(
            f"{python} has no {name} to start workers with", hint=f"{python} -m pip install {name}"
        )


def launcher_findings(study: Study) -> tuple[Finding, ...]:
    """A script that uses Accelerate and is started by torchrun gets nothing of what `accelerate config` says."""
    script = Path(study.directory or ".", study.workload.name)
    if study.workload.kind != "script" or study.workload.start != "torchrun" or not script.is_file():
        return ()
    if not _USES_ACCELERATE.search(script.read_text(encoding="utf-8", errors="replace")):
        return ()
    return (
        Finding(
            "accelerate-not-asked",
            "doubt",
            f"{study.workload.name} uses Accelerate, and torchrun starts it: a configuration for `accelerate launch` "
            "(FSDP, precision, accumulation) does not apply",
            hint="--launcher accelerate --config FILE, if you have one",
        ),
    )


def _text(path: Path, name: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as problem:
        raise UsageError(f"cannot read {name}: {problem.strerror}", hint="correct its path") from None
    except UnicodeDecodeError:
        raise UsageError(f"{name} is not text", hint="name a yaml, toml or json file") from None
