"""The glossary and the records agree: a word of the glossary that is a noun of the desk is a record, and back."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from paceline import records

WORDS = (Path(__file__).parents[2] / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
LISTED = {
    word for row in re.findall(r"^\| ([A-Z][\w, ]*) \|", WORDS, re.MULTILINE) for word in row.split(", ")
}
PARTS = {
    *("Exchange", "BucketReady", "BucketSent", "WorkerRecord", "TrialResult", "Plan"),
    *("ProbeRow", "ProbeTime", "DeviceRate", "JitterProbe", "BesideTime", "TensorPeak", "ShapeCount"),
}  # pieces of the nouns above


def test_every_record_is_a_word():
    nouns = {name for name, thing in vars(records).items() if dataclasses.is_dataclass(thing)}
    assert nouns - PARTS <= LISTED


def test_every_word_of_the_desk_is_a_record_or_measured_elsewhere():
    measured_elsewhere = {"Worker", "Node", "Step", "Manifest"}
    assert LISTED - measured_elsewhere <= set(vars(records))
