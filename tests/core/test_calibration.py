"""The table of constants: each says from where it is, and none has a rival elsewhere under its own name."""

from __future__ import annotations

import ast
import datetime
from collections import defaultdict
from pathlib import Path

import pytest

from paceline.core import calibration
from paceline.core.calibration import Believed, Constant
from tests.house.test_layers import PURE

ROOT = Path(__file__).parents[2]
TABLE = {name: row for name, row in vars(calibration).items() if isinstance(row, Constant | Believed)}


def test_the_table_is_not_empty():
    assert len(TABLE) > 50


@pytest.mark.parametrize("name", TABLE)
def test_a_constant_has_a_unit_and_evidence_of_a_day(name):
    row = TABLE[name]
    where, date = row.evidence.where, datetime.date.fromisoformat(row.evidence.date)
    assert row.unit
    if " " in where:
        assert "://" not in where
    else:
        folder = ROOT / "evidence" / where
        assert (folder / "README.md").is_file()
        assert folder.name.startswith(str(date))


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if isinstance(row, Believed)])
def test_what_is_believed_is_not_believed_for_sure(name):
    assert TABLE[name].spread > 0


@pytest.mark.parametrize("name", TABLE)
def test_a_constant_is_used(name):
    used = [
        path
        for path in (ROOT / "src" / "paceline").rglob("*.py")
        if path.name != "calibration.py" and f".{name}" in path.read_text(encoding="utf-8")
    ]
    assert used


def numbers(path):
    """The module's constants that are plain numbers, by name without the underscore of a private one."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name | ast.Tuple):
            target = node.targets[0]
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            values = node.value.elts if isinstance(target, ast.Tuple) else [node.value]
            for name, value in zip(names, values, strict=True):
                if (
                    isinstance(value, ast.Constant)
                    and isinstance(value.value, int | float)
                    and name.id.isupper()
                ):
                    yield name.id.lstrip("_"), value.value


def test_one_name_has_one_value_in_all_pure_rooms():
    seen = defaultdict(set)
    for room in PURE.replace("/", " ").split():
        for path in (ROOT / "src" / "paceline" / room).rglob("*.py"):
            for name, value in numbers(path):
                seen[name].add(value)
    assert len(seen) > 50
    assert {name: values for name, values in seen.items() if len(values) > 1} == {}
