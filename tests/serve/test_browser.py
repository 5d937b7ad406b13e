"""The live page in a real browser: it opens, and what a study adds appears by itself."""

import shutil

import pytest

from paceline.report.charts import draw
from tests.report.test_browser import CHROMIUM, FLAGS, axe  # noqa: F401  # a fixture
from tests.serve.test_serve import RECORDED, TRIALS, WAIT_S, served  # noqa: F401  # a fixture

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason="no /usr/bin/chromium: install Debian's chromium"),
    pytest.mark.skipif(
        not draw.can_draw(), reason="vl-convert is not installed: pip install 'paceline[report]'"
    ),
]


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield opened
        opened.close()


def test_a_page_opens_follows_its_study_keeps_its_place_and_faults_nothing(browser, served):  # noqa: F811
    url, root, _ = served
    tab, faults, asked = browser.new_page(viewport={"width": 1280, "height": 700}), [], []
    tab.set_default_timeout(WAIT_S * 1000)
    tab.on("pageerror", lambda fault: faults.append(str(fault)))
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(f"{url}?study=growing")
    report = tab.frame_locator("iframe:not(.coming)")
    report.get_by_role("heading", level=1).wait_for()
    report.locator("summary", has_text="Where the numbers come from").click()
    runs = report.locator("#provenance tr", has=report.get_by_role("cell", name="runs", exact=True))
    assert runs.locator("td").nth(1).inner_text() == "2"
    row = tab.locator("nav a[aria-current]")
    assert row.inner_text().split("\n") == ["growing", "2 of 6 runs"]
    report.locator("#provenance").scroll_into_view_if_needed()
    place = report.locator("html").evaluate("() => window.scrollY")
    assert place > 100
    shutil.copytree(RECORDED / "trials" / TRIALS[1], root / "growing" / "trials" / TRIALS[1])
    row.get_by_text("3 of 6 runs").wait_for()
    runs.locator("td", has_text="3").wait_for()
    assert runs.is_visible()  # what was open stays open
    assert abs(report.locator("html").evaluate("() => window.scrollY") - place) < 200
    assert tab.locator("iframe").count() == 1
    tab.close()
    assert faults == []
    loaded = [address for address in asked if "/report?" in address]
    assert len(loaded) == len(set(loaded)), "a report that had not changed was loaded again"
    assert {address for address in asked if not address.startswith((url, "blob:"))} == set()


def test_the_report_reaches_neither_the_frame_nor_the_server(browser, served):  # noqa: F811
    url, _, _ = served
    tab = browser.new_page()
    tab.set_default_timeout(WAIT_S * 1000)
    tab.goto(f"{url}?study=growing")
    tab.frame_locator("iframe:not(.coming)").get_by_role("heading", level=1).wait_for()
    (inner,) = [frame for frame in tab.frames if frame.parent_frame]
    assert (
        inner.evaluate("() => { try { return parent.document.title } catch { return 'refused' } }")
        == "refused"
    )
    assert inner.evaluate("() => fetch('list').then(() => 'read', () => 'refused')") == "refused"
    assert inner.evaluate("() => window.origin") == "null"
    tab.close()


def test_axe_finds_nothing_to_complain_about_in_the_frame(browser, served, axe):  # noqa: F811
    url, _, _ = served
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme, bypass_csp=True)
        tab = context.new_page()
        tab.goto(f"{url}?study=growing")
        tab.evaluate(axe)
        found = tab.evaluate(
            "axe.run({ iframes: false }).then(result => result.violations.map(v => [v.id, v.nodes[0].html]))"
        )
        context.close()
        assert found == []
