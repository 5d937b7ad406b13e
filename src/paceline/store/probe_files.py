"""Probes on disk, one folder each: FOLDER/probe/n1-w2/ with what was asked, what was measured, and by which code.

probe.json    the commit mark, written last: what was asked, when, how it ended
probe.jsonl   what the workers measured (written by the first of them)      nccl-tests.txt  or what was read in
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from paceline.core.errors import StudyError
from paceline.core.json_text import json_of
from paceline.links.nccl import read_nccl_tests
from paceline.links.probe import probe_from
from paceline.records import LinkClass, Probe
from paceline.store.atomic import flush_folder, make_folder, write_json, write_text

__all__ = ["commit_probe", "prepare_probe", "probe_folders", "read_probe", "read_probes", "store_nccl_tests"]

FORMAT = 1
_COMMIT, _LINES, _NCCL = "probe.json", "probe.jsonl", "nccl-tests.txt"


def prepare_probe(folder: Path, *, agent: Path) -> Path:
    """An empty folder with its own copy of the agent, beside the name that it will have when it is complete."""
    beside = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(beside, ignore_errors=True)
    make_folder(beside / "agent")
    shutil.copytree(
        agent, beside / "agent" / agent.name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
    )
    return beside


def commit_probe(beside: Path, folder: Path, asked: Mapping[str, object]) -> None:
    """Make a probe complete: it takes the place of an earlier one of the same name."""
    write_json(beside / _COMMIT, {"format": FORMAT, **asked})
    if folder.exists():
        shutil.rmtree(folder)
    beside.rename(folder)
    flush_folder(folder.parent)


def store_nccl_tests(text: str, folder: Path, asked: Mapping[str, object]) -> None:
    """Keep the output of nccl-tests, as it was read, beside the probes."""
    beside = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(beside, ignore_errors=True)
    make_folder(beside)
    write_text(beside / _NCCL, text)
    commit_probe(beside, folder, asked)


def read_probe(folder: Path) -> Probe:
    """What one probe measured, complete or not."""
    asked = _asked(folder)
    try:
        if (folder / _NCCL).exists():
            text = (folder / _NCCL).read_text(encoding="utf-8")
            probe = read_nccl_tests(
                text,
                workers=_count(asked, "workers"),
                nodes=_count(asked, "nodes"),
                source=str(asked.get("source", "nccl-tests")),
            )
        else:
            lines = (folder / _LINES).read_text(encoding="utf-8", errors="replace").splitlines()
            probe = probe_from(lines)
    except OSError as problem:
        raise StudyError(
            f"there is no probe in {folder}: {problem.strerror}", hint="paceline probe STUDY"
        ) from problem
    return replace(probe, specs=_specs(asked), notes=(*probe.notes, *_notes(asked)))


def probe_folders(root: Path) -> tuple[Path, ...]:
    """Every complete probe below FOLDER/probe, by name."""
    return tuple(path.parent for path in sorted((root / "probe").glob(f"*/{_COMMIT}")))


def read_probes(root: Path) -> tuple[Probe, ...]:
    """What they all measured."""
    return tuple(read_probe(path) for path in probe_folders(root))


def _asked(folder: Path) -> dict[str, object]:
    try:
        data = json_of((folder / _COMMIT).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        data = None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise StudyError(
            f"{folder / _COMMIT} is damaged or of another version", hint=f"remove {folder} and probe again"
        )
    return data


def _specs(asked: Mapping[str, object]) -> tuple[tuple[LinkClass, str], ...]:
    specs = asked.get("specs")
    if not isinstance(specs, dict):
        return ()
    names: tuple[LinkClass, ...] = ("inside", "between")
    return tuple((name, str(specs[name])) for name in names if name in specs)


def _notes(asked: Mapping[str, object]) -> tuple[str, ...]:
    """What was known about the nodes, and how it ended where it did not end well."""
    notes, ended = asked.get("notes"), asked.get("ended")
    told = tuple(map(str, notes)) if isinstance(notes, list) else ()
    return told if ended is None else (*told, f"the probe was cut short: {ended}")


def _count(asked: Mapping[str, object], name: str) -> int | None:
    value = asked.get(name)
    return value if isinstance(value, int) else None
