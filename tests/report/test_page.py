"""The page as a file: one piece, small, quick, harmless, and complete without pictures."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from paceline.analysis.json_file import analysis_data, analysis_from
from paceline.core.errors import PacelineError
from paceline.records import Analysis, Reason, Verdict
from paceline.report.charts import draw
from paceline.report.page import page
from paceline.report.tables.definitions import DEFINITIONS
from tests.support.desk import ROOT, environment
from tests.support.report_sample import FULL, HOSTILE, STRONG, WEAK, hostile, told

LARGEST_BYTES = 1_500_000
VOID = {"meta", "link", "br", "img", "hr", "input"}

needs_pictures = pytest.mark.skipif(
    not draw.can_draw(), reason="vl-convert is not installed: pip install 'paceline[report]'"
)


class Reader(HTMLParser):
    """What a browser would take from a page: tags with attributes, text, and what was left open."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.words, self.inside = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.words.append(data)

    def attributes(self, name):
        return [found[name] for _, found in self.tags if name in found]

    @property
    def text(self):
        return " ".join("".join(self.words).split())


@pytest.fixture(scope="module")
def full():
    return page([("", FULL)])


@pytest.fixture
def without_pictures(monkeypatch):
    monkeypatch.setattr(draw, "can_draw", lambda: False)


def test_the_verdict_comes_first_then_its_numbers_then_what_to_do(full):
    text = Reader(full).text
    wanted = ("Use 8 workers", "6.40x", "What to do", "Findings", "✓", "✗", "Speed-up and efficiency")
    places = [text.index(words) for words in wanted]
    assert places == sorted(places)


def test_sections_come_in_the_order_of_reading_and_only_with_data(full):
    titles = re.findall(r"<h2 id=[^>]*>([^<]*)</h2>", full)
    assert titles == [
        "What to do", "Findings", "Failed runs", "Thresholds",
        "Grids", "Speed-up and efficiency", "Where the step goes", "Communication", "Accuracy",
        "Memory, utilisation, slow workers", "Decision and prediction",
        "Where the numbers come from", "What the words mean",
    ]  # fmt: skip
    empty = page([("", Analysis(told("Nothing was measured."), (), ()))])
    assert re.findall(r"<h2 id=[^>]*>([^<]*)</h2>", empty) == [
        "Where the numbers come from", "What the words mean",
    ]  # fmt: skip


def test_a_folded_part_says_how_much_it_holds(without_pictures):
    one = FULL.thresholds[0]
    many = [replace(one, message=f"line {i}", holds=i > 1) for i in range(12)]
    made = Reader(page([("", replace(FULL, thresholds=tuple(many)))])).text
    assert "10 of 12 hold" in made
    assert "1 WARNING, 1 INFO" in made


def test_a_command_names_the_folder_of_its_study(without_pictures):
    placed = replace(FULL, source={**FULL.source, "folder": "/data/my study"})
    made = Reader(page([("", placed)])).text
    assert "paceline study '/data/my study' --repeats 5" in made
    assert "STUDY" not in made


def test_the_first_sentence_alone_is_the_heading(without_pictures):
    several = Verdict(
        "no_answer", reasons=(Reason("one-count", "1 worker: 9 samples/s.", "64 may pay too."),)
    )
    made = page([("", replace(FULL, verdict=several))])
    assert re.search(r"<h1[^>]*>([^<]*)</h1>", made)[1] == "1 worker: 9 samples/s."
    assert "64 may pay too." in made


def test_findings_say_number_threshold_and_next_command(full):
    text = Reader(full).text
    assert "measured 2, threshold 3" in text
    assert "Next: paceline study STUDY --repeats 5" in text


def test_a_failed_trial_shows_its_reason_and_the_end_of_its_log(full):
    text = Reader(full).text
    assert "worker 0 ran out of memory at step 3" in text
    assert "OutOfMemoryError: 2 GiB" in text


def test_every_word_of_the_tables_is_defined(full):
    words = " ".join(word for word, _ in DEFINITIONS)
    for column in (
        "compute",
        "data wait",
        "optimizer",
        "waiting for the slowest",
        "network",
        "hidden communication",
        "samples/s",
        "speed-up",
        "bus bandwidth",
    ):
        assert column in words
    assert all(meaning in Reader(full).text for _, meaning in DEFINITIONS)


def test_the_page_is_well_formed_and_no_id_is_used_twice():
    found = Reader(page([("a", FULL), ("b", hostile())]))
    assert found.open == []
    ids = found.attributes("id")
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in found.attributes("href") if link.startswith("#")} <= set(ids)


@needs_pictures
def test_the_page_is_one_small_file_that_names_no_server(full):
    assert len(full.encode()) <= LARGEST_BYTES
    found = Reader(full)
    assert found.attributes("src") == []
    assert all(link.startswith("#") for link in found.attributes("href"))
    assert not any(link for link in found.attributes("xlink:href") if not link.startswith("#"))
    policy = next(a["content"] for t, a in found.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert "connect-src" not in policy
    assert "http" not in policy


@needs_pictures
def test_every_figure_is_there_as_a_static_picture_with_a_name(full):
    figures = [a for tag, a in Reader(full).tags if "data-figure" in a]
    pictures = [a for tag, a in Reader(full).tags if tag == "svg" and a.get("role") == "img"]
    assert len(figures) == len(pictures) >= 9
    assert all(a["aria-label"] for a in pictures)


def test_without_vl_convert_the_tables_come_and_the_page_says_how_to_get_pictures(without_pictures):
    text = page([("", FULL)])
    assert "<svg" not in text
    assert "pip install &#39;paceline[report]&#39;" in text
    assert Reader(text).text.count("6.40 ± 0.32") == 1
    assert len(text) < 150_000


@needs_pictures
def test_a_picture_that_cannot_be_drawn_costs_only_itself(monkeypatch):
    def refused(spec, *, prefix=""):
        raise PacelineError("a picture cannot be drawn: no ink", hint="the tables have its numbers")

    monkeypatch.setattr(draw, "svg", refused)
    text = page([("", FULL)])
    assert "<p>a picture cannot be drawn: no ink; the tables have its numbers.</p>" in text
    assert "6.40 ± 0.32" in text


@needs_pictures
def test_a_long_name_of_rare_characters_is_drawn():
    named = [replace(p, point=replace(p.point, backend="🚀" * (60 + i))) for i, p in enumerate(WEAK)]
    assert "cannot be drawn" not in page([("", replace(FULL, points=tuple(named)))])


def test_pictures_are_not_missed_where_there_is_nothing_to_draw(without_pictures):
    assert "pip install" not in page([("", Analysis(told("Nothing was measured."), (), ()))])


@pytest.mark.parametrize("name", ["", HOSTILE])
def test_hostile_names_are_text(name):
    text = page([(name, hostile())])
    found = Reader(text)
    assert "alert(1)" in found.text
    assert "\x1b" not in text
    scripts = re.findall(r"<script\b[^>]*>(.*?)</script>", text, re.DOTALL)
    assert all(not script.startswith("alert") for script in scripts)
    assert len(scripts) == text.count("</script>") == (4 if draw.can_draw() else 3)


def test_several_studies_are_compared_and_then_shown_one_by_one():
    other = Analysis(told("Use 4 workers: strong."), STRONG, ())
    text = Reader(page([("mine", FULL), ("yours", other)])).text
    places = [
        text.index(words) for words in ("2 studies compared", "Compared", "Use 8 workers", "Use 4 workers")
    ]
    assert places == sorted(places)
    assert "mine: 64 per worker" in text
    assert "yours" in text


def test_two_studies_of_one_name_stay_apart():
    text = Reader(page([("s", FULL), ("s", FULL)])).text
    assert "s (1): 64 per worker" in text
    assert "s (2): 64 per worker" in text


def test_the_file_alone_rebuilds_the_page_to_the_letter():
    data = json.loads(json.dumps(analysis_data(FULL)))
    assert page([("s", analysis_from(data))]) == page([("s", FULL)])


def test_an_analysis_of_the_first_format_renders_for_ever():
    data = analysis_data(FULL)
    del data["thresholds"], data["failures"]
    assert "Use 8 workers" in page([("", analysis_from(json.loads(json.dumps(data))))])


@needs_pictures
@pytest.mark.alone
def test_a_study_of_200_points_is_rendered_in_5_seconds_and_500_megabytes():
    code = (
        "import time\nfrom paceline.report.page import page\nfrom paceline_agent.record.host import peak_memory_bytes\n"
        "from tests.support.report_sample import large\n"
        "began = time.process_time()\ntext = page([('', large(200))])\n"
        "print(len(text.encode()), time.process_time() - began, peak_memory_bytes())"
    )
    kept = {**environment(), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run([sys.executable, "-c", code], env=kept, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    size, seconds, peak_bytes = (float(word) for word in done.stdout.split())
    assert size <= LARGEST_BYTES
    assert seconds < 5
    assert peak_bytes < 500e6
