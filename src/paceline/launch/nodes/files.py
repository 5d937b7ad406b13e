"""What travels between the trial folder of the desk and that of a joined node: names, and nothing that could escape."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["chunks", "packed", "safe_name", "unpacked", "written"]

# what the agent, torchrun and the sampler of a node leave in a trial folder
_FILES = re.compile(
    r"(worker-\d+\.jsonl|manifest-\d+\.json|exit-\d+\.json|failed-\d+|heartbeat-\d+|stacks-\d+\.txt|standing-\d+\.json"
    r"|out-(\d+|main-\d+)\.log|telemetry-\d+\.jsonl|launcher-\d+\.log|probe\.jsonl)"
)
_CHUNK_BYTES = 1 << 22
_MOST_LOG_BYTES = 1 << 24


def safe_name(name: object) -> str | None:
    """The name, when it is one that a trial folder may hold."""
    return name if isinstance(name, str) and _FILES.fullmatch(name) else None


def packed(folder: Path) -> bytes:
    """A folder of code as one archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(folder))
    return buffer.getvalue()


def unpacked(archive: bytes, folder: Path) -> None:
    """The same folder again; zipfile keeps every name inside it."""
    with zipfile.ZipFile(io.BytesIO(archive)) as packed_files:
        packed_files.extractall(folder)


def chunks(path: Path) -> Iterator[tuple[bytes, bool]]:
    """The content of a file in pieces, and whether each is the first. Of a very long log only the end."""
    with open(path, "rb") as file:
        if path.suffix == ".log" and path.stat().st_size > _MOST_LOG_BYTES:
            file.seek(-_MOST_LOG_BYTES, io.SEEK_END)
        first = True
        while (piece := file.read(_CHUNK_BYTES)) or first:
            yield piece, first
            first = False


def written(folder: Path, name: object, content: bytes, *, first: bool) -> None:
    """Write what a node sent into the trial folder; a name that has no business there is passed over."""
    safe = safe_name(name)
    if safe is None:
        return
    with open(folder / safe, "wb" if first else "ab") as file:
        file.write(content)
