"""The README is short, and the verdict in it is what Paceline says today of a study that was recorded."""

from __future__ import annotations

import importlib.util
import struct
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PICTURE = ROOT / "docs" / "report.png"


def made_by():
    spec = importlib.util.spec_from_file_location("transcript", ROOT / "docs" / "transcript.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_transcript_is_what_the_recorded_study_says():
    module = made_by()
    for page in module.PAGES:
        said = page.read_text(encoding="utf-8")
        assert module.transcript() in said, "where the change is meant: python docs/transcript.py"


def test_a_transcript_that_differs_would_be_replaced():
    module = made_by()
    other = README.replace(module.transcript(), "$ something else\n")
    assert other != README
    assert module.with_transcript(other) == README


def test_it_is_read_in_a_minute():
    lines = README.splitlines()
    assert len(lines) <= 120
    start = "\n".join(lines[:12])
    assert "make demo" in start
    assert "make test" in start


def test_its_picture_is_one_screen_and_small():
    data = PICTURE.read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    assert width > height
    assert len(data) < 150_000
