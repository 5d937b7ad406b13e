"""A file that nobody can read in one sitting is a smell, and so is a room in which nobody finds a file."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
LONGEST = 400
FULLEST = 20
ROOMS = sorted({path.parent for path in SRC.rglob("*.py")})


@pytest.mark.parametrize("path", sorted(SRC.rglob("*.py")), ids=lambda path: str(path.relative_to(SRC)))
def test_no_file_is_longer_than_a_sitting(path):
    assert len(path.read_text().splitlines()) <= LONGEST


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(SRC)))
def test_a_room_is_small_and_says_what_lives_there(room):
    assert len([path for path in room.glob("*.py") if path.name != "__init__.py"]) <= FULLEST
    said = ast.get_docstring(ast.parse((room / "__init__.py").read_text()))
    assert said, f"{room.relative_to(SRC)}/__init__.py has no docstring"


def test_tests_stand_in_rooms_too():
    assert not list((ROOT / "tests").glob("test_*.py"))


def test_the_layer_test_itself_stays_short():
    assert len((Path(__file__).parent / "test_layers.py").read_text().splitlines()) < 60
