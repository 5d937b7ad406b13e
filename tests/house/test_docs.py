"""What the docs say to type can be typed, and what they point at is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer._click.core import Context
from typer._click.exceptions import UsageError as ClickUsageError

from paceline.cli.main import VERBS, load

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "DESIGN.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
# made from the code when the site is built; test_site.py follows the links to them
MADE = [ROOT / "docs" / "reference" / f"{name}.md" for name in ("commands", "study-file", "analysis")]
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page):
    links = [link for link in _LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    missing = [link for link in links if not (page.parent / link).exists()]
    assert [link for link in missing if (page.parent / link).resolve() not in MADE] == []


EVIDENCE = ROOT / "evidence"


def test_every_folder_of_evidence_is_in_its_index():
    claims = [*EVIDENCE.iterdir(), *(EVIDENCE / "lab").iterdir()]
    folders = {path.relative_to(EVIDENCE).as_posix() for path in claims if path.is_dir()}
    index = (EVIDENCE / "README.md").read_text(encoding="utf-8")
    listed = {link.rstrip("/") for link in _LINK.findall(index)}
    assert folders == listed


@pytest.mark.parametrize(
    "page", sorted(EVIDENCE.rglob("README.md")), ids=lambda page: page.parent.relative_to(ROOT).as_posix()
)
def test_every_link_of_evidence_leads_somewhere(page):
    links = [link for link in _LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing == []


def test_every_script_of_evidence_says_which_commit_it_ran_on():
    scripts = [path for kind in ("*.py", "*.c") for path in EVIDENCE.rglob(kind)]
    said = re.compile(r"(# |/\* )Ran on commit [0-9a-f]{7} \(20\d\d-\d\d-\d\d\)")
    silent = [str(path) for path in scripts if not said.match(path.read_text(encoding="utf-8"))]
    assert len(scripts) > 30
    assert silent == []


def test_evidence_stays_below_12_megabytes():
    files = [path for path in EVIDENCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert 1_000_000 < sum(path.stat().st_size for path in files) < 12_000_000


_PROVEN = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_every_promise_names_a_test_that_exists():
    lines = (ROOT / "docs" / "reference" / "promises.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("|")][2:]
    named = [_PROVEN.findall(row) for row in rows]
    assert len(rows) >= 15
    assert all(len(tests) == 1 for tests in named)
    for ((path, name),) in named:
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path}::{name}"
