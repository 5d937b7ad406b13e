"""preflight.json: what the nodes were before the first trial, and what that says about the trials."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from paceline.core.json_data import plain_data, record_from
from paceline.core.json_text import json_of
from paceline.plan.preflight import Facts
from paceline.records import Finding
from paceline.store.atomic import write_json
from paceline.store.paths import StudyFolder

__all__ = ["points_left_out", "preflight_findings_of", "write_preflight"]

FORMAT = 1
_NAME = "preflight.json"


def write_preflight(
    folder: StudyFolder, nodes: Sequence[Facts], findings: Sequence[Finding], left_out: Iterable[str] = ()
) -> None:
    """Record the look at the nodes beside the study, and which points cannot run on them."""
    data = {
        "format": FORMAT,
        "nodes": [plain_data(facts) for facts in nodes],
        "findings": [asdict(finding) for finding in findings],
        "left_out": sorted(left_out),
    }
    write_json(folder.root / _NAME, data)


def preflight_findings_of(folder: StudyFolder) -> tuple[Finding, ...]:
    """What preflight said about this study; nothing where there was none, or where the file is damaged."""
    try:
        data = json_of((folder.root / _NAME).read_text(encoding="utf-8"))
        return tuple(record_from(Finding, finding) for finding in data["findings"])
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def points_left_out(folder: StudyFolder) -> frozenset[str]:
    """The points that could not run on these nodes; none where nobody looked, or where the file is damaged."""
    try:
        data = json_of((folder.root / _NAME).read_text(encoding="utf-8"))
        return frozenset(map(str, data["left_out"]))
    except (OSError, ValueError, KeyError, TypeError):
        return frozenset()
