"""The page in a real browser: quiet, quick, interactive where it may be, whole where it may not."""

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from paceline.report.charts import draw
from paceline.report.page import page
from tests.support.report_sample import FULL, hostile

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason="no /usr/bin/chromium: install Debian's chromium"),
    pytest.mark.skipif(
        not draw.can_draw(), reason="vl-convert is not installed: pip install 'paceline[report]'"
    ),
]
OPENS_S = 1.5
ANYWHERE = "http://report.test/"
STRICT = "default-src 'none'"
NO_EVAL = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'"


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    where = tmp_path_factory.mktemp("report") / "report.html"
    where.write_text(page([("", FULL)]))
    return where


@pytest.fixture
def shown(browser, file):
    """The page of the full study as a reader opens it; every fault that it logs fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    tab, faults = context.new_page(), []
    tab.on("pageerror", lambda fault: faults.append(str(fault)))
    tab.goto(file.as_uri())
    yield tab
    context.close()
    assert faults == []


def under_policy(browser, file, policy):
    """The page as a server that sends this policy shows it."""
    tab = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    headers = {"Content-Security-Policy": policy, "Content-Type": "text/html; charset=utf-8"}
    tab.route(ANYWHERE, lambda route: route.fulfill(body=file.read_text(), headers=headers))
    tab.goto(ANYWHERE)
    return tab


def unfold(tab):
    """Open everything that is folded away."""
    tab.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")


def all_live(tab):
    """Open and scroll through the page until every chart is interactive."""
    unfold(tab)
    for figure in tab.locator("[data-figure]").all():
        figure.scroll_into_view_if_needed()
        tab.wait_for_function("e => 'live' in e.dataset || 'still' in e.dataset", arg=figure.element_handle())
    return tab.locator("[data-live]").count()


def is_whole_without_scripts(tab):
    assert tab.get_by_role("heading", level=1).inner_text().startswith("Use 8 workers")
    assert tab.locator("tbody tr").count() > 30
    unfold(tab)
    pictures = tab.locator("svg[role=img]")
    assert pictures.count() == tab.locator("[data-figure]").count() >= 9
    assert all(picture.bounding_box()["height"] > 50 for picture in pictures.all())
    assert tab.locator("button").count() == 0  # no control that would do nothing


@pytest.mark.alone
def test_the_page_opens_quickly_and_asks_no_server_for_anything(browser, file):
    tab, asked, times = browser.new_page(), [], []
    tab.on("request", lambda request: asked.append(request.url))
    for _ in range(3):
        began = time.monotonic()
        tab.goto(file.as_uri())
        assert tab.get_by_role("heading", level=1).is_visible()
        times.append(time.monotonic() - began)
    assert all_live(tab) >= 9
    tab.close()
    assert min(times) < OPENS_S
    assert {url for url in asked if not url.startswith("blob:")} == {file.as_uri()}


def test_every_chart_becomes_interactive_and_keeps_its_size(browser, file, shown):
    sizes = (
        "[...document.querySelectorAll('[data-figure] svg')].map(svg => svg.getBoundingClientRect().width)"
    )
    still = under_policy(browser, file, NO_EVAL)
    unfold(still)
    before = still.evaluate(sizes)
    still.context.close()
    assert all_live(shown) == len(before) >= 9
    assert shown.evaluate(sizes) == pytest.approx(before, rel=0.1)
    assert shown.locator(".vega-embed summary, .vega-actions").count() == 0


def test_a_point_tells_its_number_to_the_pointer(shown):
    all_live(shown)
    points = shown.locator("[data-figure=speedup-weak] .mark-symbol path")
    points.nth(3).hover()
    tip = shown.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    assert "6.40 ± 0.32" in tip.inner_text()


def test_a_click_in_the_legend_fades_the_other_lines(shown):
    all_live(shown)
    chart = shown.locator("[data-figure=memory]")
    chart.locator(".role-legend-label text").first.click()
    shown.wait_for_function(
        "() => document.querySelectorAll('[data-figure=memory] .mark-symbol path[opacity=\"0.12\"]').length == 3"
    )


def test_a_click_in_the_legend_shows_a_simpler_curve_beside_our_fit(shown):
    all_live(shown)
    chart = shown.locator("[data-figure=speedup-weak]")
    drawn = """() => [...document.querySelectorAll('[data-figure=speedup-weak] .mark-line path')]
        .filter(path => path.getAttribute('stroke') === '#59636e' && path.getAttribute('opacity') === '0.9').length"""
    assert shown.evaluate(drawn) == 1
    chart.locator(".role-legend-label text", has_text="Amdahl").click()
    shown.wait_for_function(f"() => ({drawn})() === 2")


@pytest.mark.parametrize(
    ("form", "begins"), [("Markdown", "| line"), ("CSV", "line,workers"), ("LaTeX", "\\begin{table}")]
)
def test_a_table_is_copied_with_one_click(shown, form, begins):
    shown.context.grant_permissions(["clipboard-read", "clipboard-write"])
    unfold(shown)
    button = shown.locator("#table-scaling").get_by_role("button", name=f"Copy {form} of this table")
    button.click()
    shown.wait_for_function(
        "() => document.getElementById('said').textContent !== ''"
    )  # it stays, the button does not
    copied = shown.evaluate("navigator.clipboard.readText()")
    assert copied.startswith(begins)
    assert "6.40" in copied
    assert shown.get_by_role("status").inner_text() == f"Table copied as {form}"


@pytest.mark.parametrize(("form", "magic"), [("SVG", b"<svg"), ("PNG", b"\x89PNG")])
def test_a_figure_is_saved_with_one_click(shown, form, magic):
    with shown.expect_download() as saved:
        shown.get_by_role("button", name=f"Save {form} of the figure speedup-weak").click()
    assert saved.value.suggested_filename == f"speedup-weak.{form.lower()}"
    assert Path(saved.value.path()).read_bytes().startswith(magic)


def test_the_keyboard_reaches_links_tables_and_buttons_and_shows_where_it_is(shown):
    unfold(shown)
    reached = []
    for _ in range(60):
        shown.keyboard.press("Tab")
        reached.append(
            shown.evaluate("document.activeElement.tagName + '.' + document.activeElement.className")
        )
    assert reached[0] == "A.skip"
    assert {"A.badge doubt", "SUMMARY.", "BUTTON.", "DIV.scroll"} <= set(reached)
    assert shown.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_without_scripts_everything_is_there(browser, file):
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(file.as_uri())
    is_whole_without_scripts(tab)
    context.close()


def test_under_a_strict_policy_everything_is_there(browser, file):
    tab = under_policy(browser, file, STRICT)
    is_whole_without_scripts(tab)
    tab.context.close()


def test_where_evaluation_is_forbidden_the_static_pictures_stay_and_the_buttons_work(browser, file):
    tab = under_policy(browser, file, NO_EVAL)
    assert all_live(tab) == 0
    assert tab.locator("[data-still] svg[role=img]").count() >= 9
    assert tab.get_by_role("button", name="Copy CSV of this table").count() > 5
    tab.context.close()


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_paper_and_ink_follow_the_readers_scheme_in_text_and_in_pictures(browser, file, scheme, dark):
    tab = browser.new_context(color_scheme=scheme).new_page()
    tab.goto(file.as_uri())
    light_of = (
        "([query, property]) => getComputedStyle(document.querySelector(query))[property]"
        ".match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 3"
    )
    assert (tab.evaluate(light_of, ["body", "backgroundColor"]) < 60) == dark
    assert (tab.evaluate(light_of, ["h1", "color"]) > 180) == dark
    assert (tab.evaluate(light_of, [".chart text[fill='#1f2328']", "fill"]) > 180) == dark
    tab.context.close()


def test_paper_is_white_and_tables_whole_in_print_even_for_a_dark_reader(browser, file):
    tab = browser.new_context(color_scheme="dark", viewport={"width": 718, "height": 1000}).new_page()  # A4
    tab.goto(file.as_uri())
    tab.emulate_media(media="print", color_scheme="dark")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.evaluate("document.documentElement.scrollWidth") <= 718
    assert not tab.locator("button").first.is_visible()
    assert tab.pdf()[:4] == b"%PDF"
    tab.context.close()


@pytest.mark.parametrize("width", [1280, 640, 360])
def test_nothing_but_a_wide_table_needs_scrolling_sideways(browser, file, width):
    tab = browser.new_context(viewport={"width": width, "height": 800}).new_page()
    tab.goto(file.as_uri())
    all_live(tab)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.context.close()


def test_a_hostile_study_runs_nothing(browser, tmp_path):
    (tmp_path / "hostile.html").write_text(page([("", hostile())]))
    tab, spoken = browser.new_page(), []
    tab.on("dialog", lambda dialog: (spoken.append(dialog.message), dialog.dismiss()))
    tab.on("pageerror", lambda fault: spoken.append(str(fault)))
    tab.goto((tmp_path / "hostile.html").as_uri())
    assert all_live(tab) >= 4
    assert "<script>alert(1)</script>" in tab.get_by_role("heading", level=1).inner_text()
    tab.close()
    assert spoken == []


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    """axe-core, from npm into a temporary folder."""
    where = tmp_path_factory.mktemp("axe")
    if shutil.which("npm") is None:
        pytest.skip("no npm to bring axe-core")
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(where), "axe-core@4"]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=90)
    except (subprocess.SubprocessError, OSError) as problem:
        pytest.skip(f"axe-core could not be brought: {problem}")
    return (where / "node_modules" / "axe-core" / "axe.min.js").read_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_to_complain_about(browser, file, axe, scheme):
    tab = browser.new_context(color_scheme=scheme, bypass_csp=True).new_page()
    tab.goto(file.as_uri())
    all_live(tab)
    tab.evaluate(axe)
    found = tab.evaluate(
        "axe.run().then(result => result.violations.map(v => [v.id, v.impact, v.nodes[0].html]))"
    )
    tab.context.close()
    assert found == [], json.dumps(found, indent=1)


def test_on_a_phone_nothing_sticks_out_and_letters_stay_readable(browser, file):
    tab = browser.new_context(viewport={"width": 390, "height": 844}).new_page()
    tab.goto(file.as_uri())
    all_live(tab)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    boxes = "[...document.querySelectorAll('.chart svg text')].map(t => t.getBoundingClientRect().height)"
    heights = [height for height in tab.evaluate(boxes) if height > 0]
    assert min(heights) >= 8.0  # of the box around them; the letters of a legend are 12.5 px on a desk
    tab.context.close()


def boxes(tab, query):
    """Where all of them are, asked at one moment: a chart that becomes interactive is another element after it."""
    return tab.locator(query).evaluate_all("all => all.map(one => one.getBoundingClientRect().toJSON())")


def test_the_first_screen_holds_the_sentence_three_numbers_and_both_charts(browser, file):
    tab = browser.new_context(viewport={"width": 1300, "height": 900}).new_page()
    tab.goto(file.as_uri())
    charts = boxes(tab, ".figures.first .chart svg")
    assert len(boxes(tab, "ul.tiles li")) == 3
    assert len(charts) == 2
    assert charts[0]["x"] + charts[0]["width"] <= charts[1]["x"]  # side by side
    assert max(box["y"] + box["height"] for box in charts) <= 900
    assert tab.evaluate("document.documentElement.scrollHeight") < 3500
    tab.context.close()


@pytest.mark.parametrize("width", [1300, 390])
def test_what_is_folded_needs_no_scrolling_sideways_either(browser, file, width):
    tab = browser.new_context(viewport={"width": width, "height": 900}).new_page()
    tab.goto(file.as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    unfold(tab)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.context.close()


def test_a_link_opens_the_folded_part_that_it_leads_to(shown):
    assert not shown.locator("#findings").is_visible()
    shown.locator(".levels a").first.click()
    assert shown.locator("#findings").is_visible()
