"""From what was typed to a folder and a Study: a new one, or the one that the folder already holds, widened."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import get_args

from paceline.core.errors import UsageError
from paceline.launch.interpreter import start_of, workload_names
from paceline.plan.config import checked, joined, refuse_both_counts
from paceline.records import Start, Study, Workload
from paceline.store.paths import StudyFolder
from paceline.store.study_file import read_study

__all__ = ["Target", "request", "target_of"]


@dataclass(frozen=True, slots=True)
class Target:
    """What the words on the command line name: a workload, a folder with a study, or a study file."""

    workload: Workload | None = None
    folder: Path | None = None
    file: Path | None = None


def target_of(words: Sequence[str], *, module: str | None, start: str | None) -> Target:
    """The target among the words: a module, a study folder, a .toml, a script, or one of our workloads."""
    if start is not None and start not in get_args(Start):
        raise UsageError(
            f"--launcher {start!r} is not known", hint=f"--launcher {', '.join(get_args(Start))}"
        )
    if module is not None:
        return Target(Workload("module", module, tuple(words), start=_start(start, "torchrun")))
    if not words:
        raise UsageError(
            "nothing to study was named", hint="paceline study train.py, or -m package.module, or mnist"
        )
    name, args = words[0], tuple(words[1:])
    path = Path(name)
    if path.is_dir():
        _no_args(name, args)
        return Target(folder=path)
    if path.suffix == ".toml":
        _no_args(name, args)
        return Target(folder=path.parent) if (path.parent / "trials").is_dir() else Target(file=path)
    if path.suffix == ".ipynb":
        raise UsageError(
            f"{name} is a notebook, and workers are started from a script",
            hint=f"jupyter nbconvert --to script {shlex.quote(name)}, then paceline study "
            f"{shlex.quote(str(path.with_suffix('.py')))}",
        )
    if path.suffix == ".py" or path.is_file():
        return Target(Workload("script", name, args, start=_start(start, start_of(path))))
    known = workload_names()
    if name in known:
        launcher = _start(start, "torchrun")
        return Target(Workload("workload", name, args, launcher, batch_flag="--batch-size", lr_flag="--lr"))
    alike = get_close_matches(name, known, n=1)
    raise UsageError(
        f"{name!r} is neither a file, nor a study folder, nor a workload ({', '.join(known)})",
        hint=alike[0] if alike else "name a script by its path: path/to/train.py",
    )


def request(
    target: Target,
    asked: Mapping[str, object],
    *,
    out: Path | None,
    flags: Mapping[str, str],
) -> tuple[StudyFolder, Study]:
    """The folder and the Study in it. `asked` holds the fields that were given, `flags` batch_flag and lr_flag."""
    refuse_both_counts(asked)
    if target.folder is not None:
        if out is not None and out.resolve() != target.folder.resolve():
            raise UsageError(
                f"{target.folder} is a study already; --out {out} is another", hint="leave out --out"
            )
        folder = StudyFolder(target.folder)
        return folder, joined(read_study(folder.study_toml), asked, workload=None)
    if target.file is not None:
        study = read_study(target.file)
        here = os.path.abspath(target.file.parent)
        study = replace(study, directory=os.path.join(here, study.directory or "."))
        folder = StudyFolder(out or Path(f"paceline-{target.file.stem}"))
        if not folder.study_toml.exists():
            return folder, joined(study, asked, workload=None)
        held = read_study(folder.study_toml)
        return folder, joined(held, asked, workload=_same_place(study.workload, study.directory, held))
    if target.workload is None:
        raise UsageError("nothing to study was named", hint="paceline study train.py")
    workload = replace(target.workload, **flags)  # type: ignore[arg-type]  # flags are two text fields
    folder = StudyFolder(out or Path(f"paceline-{_stem(workload)}"))
    if folder.study_toml.exists():
        held = read_study(folder.study_toml)
        return folder, joined(held, asked, workload=_same_place(workload, os.getcwd(), held))
    fields: dict[str, object] = {"name": _stem(workload), "directory": os.getcwd(), **asked}
    if "scaling" not in fields and "global_batch" in fields:
        fields["scaling"] = ("weak", "strong") if "per_worker_batch" in fields else ("strong",)
    return folder, checked(replace(Study(workload), **fields))  # type: ignore[arg-type]  # fields are Study's own


def _same_place(workload: Workload, directory: str | None, held: Study) -> Workload:
    """A script named from another folder is the same script."""
    if workload.kind != "script" or held.workload.kind != "script":
        return workload
    now = os.path.realpath(os.path.join(directory or ".", workload.name))
    then = os.path.realpath(os.path.join(held.directory or ".", held.workload.name))
    return replace(workload, name=held.workload.name) if now == then else replace(workload, name=now)


def _stem(workload: Workload) -> str:
    return Path(workload.name).stem if workload.kind == "script" else workload.name.rpartition(".")[2]


def _start(asked: str | None, found: Start) -> Start:
    return next((known for known in get_args(Start) if known == asked), found)


def _no_args(name: str, args: Sequence[str]) -> None:
    if args:
        raise UsageError(
            f"{name} already says what is run; {' '.join(args)!r} cannot be added to it",
            hint="study the script itself: paceline study SCRIPT -- script args",
        )
