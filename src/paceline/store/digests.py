"""Digests of what a trial left: a digit that flips on a disk is seen, not believed.

Every file beside trial.json has its size and SHA-256 there, but a heartbeat: nothing is read from it afterwards.
Of what is written line by line (logs, telemetry) the committed bytes count: a network file system may show its last
lines late. trial.json holds the digest of its own other fields.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

__all__ = ["OWN_DIGEST", "digests_of", "own_digest", "what_changed"]

OWN_DIGEST = "digest"
_NO_RESULT = re.compile(r"\..*|trial\.json|heartbeat-\d+")
_GROWING = re.compile(r"(out|launcher).*\.log|telemetry-\d+\.jsonl")


def digests_of(trial: Path) -> dict[str, dict[str, object]]:
    """Size and digest of every file of a trial, by name."""
    files = sorted(path for path in trial.iterdir() if path.is_file() and not _NO_RESULT.fullmatch(path.name))
    return {path.name: _digest(path.read_bytes()) for path in files}


def own_digest(data: Mapping[str, object]) -> str:
    """The digest of a commit mark's fields, without the one that holds it."""
    plain = {key: value for key, value in data.items() if key != OWN_DIGEST}
    text = json.dumps(plain, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def what_changed(trial: Path, data: Mapping[str, object]) -> tuple[str, ...]:
    """What is not as it was committed, in words; nothing where an older Paceline wrote no digests."""
    found = []
    if OWN_DIGEST in data and data[OWN_DIGEST] != own_digest(data):
        found.append("trial.json is not as it was written")
    files = data.get("files")
    for name, digest in files.items() if isinstance(files, Mapping) else ():
        try:
            content = (trial / Path(name).name).read_bytes()
        except OSError as problem:
            found.append(f"{name} cannot be read: {problem.strerror}")
            continue
        size = digest.get("bytes") if isinstance(digest, Mapping) else None
        kept = content[:size] if isinstance(size, int) and _GROWING.fullmatch(name) else content
        if _digest(kept) != digest:
            found.append(f"{name} is not as it was committed")
    return tuple(found)


def _digest(content: bytes) -> dict[str, object]:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
