"""Every heading that docs/tasks/timings.md promises to understand is understood."""

import re
from pathlib import Path

import pytest

from paceline.table.columns import column

PAGE = (Path(__file__).parents[2] / "docs" / "tasks" / "timings.md").read_text(encoding="utf-8")
ROWS = re.search(r"## Columns\n(.*?)\n\n", PAGE, re.DOTALL)[1].splitlines()[2:]
HEADINGS = [heading for row in ROWS for heading in re.findall(r"`([^`]+)`", row.split("|")[2])]


@pytest.mark.parametrize("heading", HEADINGS)
def test_a_heading_of_the_page_is_understood(heading):
    assert column(0, heading) is not None
