"""Percent are written as units.py writes them, without a space: in the docs, and in what the desk says."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
_SPACED = re.compile(r"\d %(?![\w(}])")


def said(tree):
    """Every text of a program that is not a docstring."""
    parents = [node for node in ast.walk(tree) if hasattr(node, "body") and isinstance(node.body, list)]
    documents = {
        id(node.body[0].value) for node in parents if node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            yield node.value


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_docs_write_percent_as_the_desk_does(page):
    assert [line for line in page.read_text(encoding="utf-8").splitlines() if _SPACED.search(line)] == []


def test_the_desk_says_percent_in_one_way():
    found = {
        str(path.relative_to(ROOT)): text
        for path in sorted((ROOT / "src").rglob("*.py"))
        for text in said(ast.parse(path.read_text(encoding="utf-8")))
        if _SPACED.search(text)
    }
    assert found == {}
