"""A file that nobody can read in one sitting is a smell."""

from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src"
LONGEST = 400


@pytest.mark.parametrize("path", sorted(SRC.rglob("*.py")), ids=lambda path: str(path.relative_to(SRC)))
def test_no_file_is_longer_than_a_sitting(path):
    assert len(path.read_text().splitlines()) <= LONGEST


def test_the_layer_test_itself_stays_short():
    assert len((Path(__file__).parent / "test_layers.py").read_text().splitlines()) < 60
