"""The docs as a site: built without one warning, asking no server for anything, searchable when opened as files."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.cli.main import VERBS
from paceline.store.analysis_schema import AnalysisFile
from paceline.store.study_schema import StudyFile

ROOT = Path(__file__).parents[2]
CHROMIUM = Path("/usr/bin/chromium")
_LOADED = re.compile(r"<(?:link|script|img|iframe|source)[^>]*?(?:src|href)=[\"']?(?:https?:)?//[^ >\"']*")

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("material") is None, reason="mkdocs-material is not installed: make docs does it"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    where = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", where]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip() == ""
    return where


def test_the_site_loads_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    assert [found for page in pages for found in _LOADED.findall(page.read_text(encoding="utf-8"))] == []


def test_every_page_of_docs_is_in_the_site(site):
    pages = {page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if not (site / page).exists()} == set()


@pytest.mark.parametrize("verb", VERBS)
def test_the_reference_has_every_verb(site, verb):
    assert f'id="paceline-{verb}"' in (site / "reference" / "commands.html").read_text(encoding="utf-8")


def test_the_reference_has_the_options_of_a_study(site):
    text = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    options = ("--workers COUNTS", "--to-accuracy X", "--nodes", "--repeats N")
    assert [option for option in options if option not in text] == []


@pytest.mark.parametrize(("page", "model"), [("study-file", StudyFile), ("analysis", AnalysisFile)])
def test_the_reference_has_every_field_of_a_file(site, page, model):
    text = (site / "reference" / f"{page}.html").read_text(encoding="utf-8")
    schema = model.model_json_schema()
    tables = [schema, *schema["$defs"].values()]
    fields = {field for table in tables for field in table.get("properties", {})}
    assert {field for field in fields if f"<code>{field}</code>" not in text} == set()


@pytest.mark.skipif(not CHROMIUM.exists(), reason="no /usr/bin/chromium: install Debian's chromium")
def test_search_works_where_the_site_is_opened_as_files(site):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    asked: list[str] = []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "index.html").as_uri())
        page.click(".md-search__input")
        page.keyboard.type("bandwidth")
        page.wait_for_selector(".md-search-result__item")
        browser.close()
    assert [url for url in asked if url.startswith(("http:", "https:", "ws:"))] == []
