"""Recorded lines of the laboratory, as they were written or packed by xz as evidence/ keeps them."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from pathlib import Path


def rows(file: Path) -> Iterator[dict[str, object]]:
    """The lines of a file, or of FILE.xz; one that was cut off by the end of its writer is passed over."""
    packed = file.with_name(file.name + ".xz")
    if file.exists():
        text = file.read_text(encoding="utf-8")
    elif packed.exists():
        text = lzma.decompress(packed.read_bytes()).decode()
    else:
        return
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue
