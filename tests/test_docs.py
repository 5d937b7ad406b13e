"""What the docs say to type can be typed, and what they point at is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer._click.core import Context
from typer._click.exceptions import UsageError as ClickUsageError

from paceline.cli.main import VERBS, load

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "DESIGN.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
_COMMAND = re.compile(r"^\s*(?:\$ )?(?:\.venv/bin/)?paceline (.+)$")
_LINK = re.compile(r"\]\(([^)#]+?)(?:#[^)]*)?\)")


def commands():
    for page in PAGES:
        for line in page.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
            if (found := _COMMAND.match(line)) is not None:
                yield pytest.param(found[1], id=f"{page.stem}: {found[1][:60]}")


@pytest.mark.parametrize("typed", list(commands()))
def test_every_command_in_the_docs_is_one_that_paceline_takes(typed):
    verb, *args = shlex.split(typed.split(" > ")[0], comments=True)
    assert verb in VERBS
    command = load(verb)
    try:
        command.make_parser(Context(command, **command.context_settings)).parse_args(args)
    except ClickUsageError as problem:
        pytest.fail(f"paceline {typed}: {problem.format_message()}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    links = [link for link in _LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing == []
