"""The forms that people hand in: compared whole with golden files, and harmless whatever the names are."""

import csv
import io
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from paceline.records import Analysis, Estimate, Point, Profile, Recommendation
from paceline.report.advice import advice
from paceline.report.charts.tidy import COLUMNS, tidy_csv
from paceline.report.document import Column, Table
from paceline.report.escape import ascii_text, csv_cell, latex_text, markdown_text, visible
from paceline.report.handin.blocks import Blank, Formula, Heading
from paceline.report.handin.lab import lab_blocks
from paceline.report.handin.lab_text import lab_latex, lab_markdown
from paceline.report.handin.latex import latex_report
from paceline.report.handin.markdown import markdown_report
from paceline.report.handin.performance import performance
from paceline.report.handin.proposal import proposal_latex, proposal_text
from paceline.report.handin.text import text_report
from paceline.report.sections import sections
from paceline.report.tables.answers import source_table
from paceline.report.tables.grid_text import csv_of, latex_of, markdown_of, plain_of
from paceline.report.tables.provenance import measured_how
from tests.support.report_sample import FULL, HOSTILE, hostile, told

GOLDEN = Path(__file__).parents[1] / "golden"
FORMS = {
    "report.txt": lambda analysis: text_report(analysis),
    "report.md": lambda analysis: markdown_report(analysis),
    "report.tex": lambda analysis: latex_report(analysis, figures="figures"),
    "report.csv": lambda analysis: tidy_csv([("study", analysis)]),
    "lab.md": lambda analysis: lab_markdown(analysis, figures="figures"),
    "lab.tex": lambda analysis: lab_latex(analysis, figures="figures"),
}
PREAMBLE = (
    r"\documentclass{article}\usepackage[T1]{fontenc}\usepackage{booktabs,graphicx,textcomp}\begin{document}"
)


@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_the_golden_one(name, tmp_path):
    made = FORMS[name](FULL)
    (tmp_path / name).write_text(made)
    golden = (GOLDEN / name).read_text()
    assert made == golden, f"if this is right: cp {tmp_path / name} {GOLDEN / name}"


@pytest.mark.parametrize("name", FORMS)
def test_an_analysis_without_anything_still_says_its_verdict(name):
    made = FORMS[name](Analysis(told("Nothing was measured."), (), ()))
    assert name == "report.csv" or "Nothing was measured." in made


def test_plain_text_is_ascii_and_keeps_the_numbers():
    made = text_report(FULL)
    assert made.isascii()
    assert "6.40 +/- 0.32" in made
    assert "predicted" in made
    assert "no prediction" in made


def test_a_column_in_which_nothing_is_known_is_left_out_and_one_node_is_not_worth_one():
    (scaling, *_), *_ = (section.tables for section in sections(FULL) if section.id == "scaling")
    assert [column.name for column in scaling.columns] == [
        "line", "workers", "nodes", "batch per worker", "global batch", "step (ms)", "samples/s", "speed-up",
        "efficiency", "runs", "state",
    ]  # fmt: skip
    alone = Analysis(told("v"), FULL.points[:4], ())
    (scaling, *_), *_ = (section.tables for section in sections(alone) if section.id == "scaling")
    names = [column.name for column in scaling.columns]
    assert "nodes" not in names
    assert "line" not in names


def test_the_baseline_is_one_by_definition_and_shows_no_interval():
    (table, *_), *_ = (section.tables for section in sections(FULL) if section.id == "scaling")
    assert table.rows[0][-4:-2] == ("1", "100%")


def test_nested_provenance_is_flat_and_unknown_is_left_out():
    rows = source_table(
        Analysis(told("v"), (), (), source={"workers": {"torch": ["2.13.0", "2.12"]}, "git": None})
    ).rows
    assert rows == (("workers torch", "2.13.0, 2.12"),)
    kept = {"environment": {"OMP_NUM_THREADS": ["1"]}, "measured_steps": 20}
    assert source_table(Analysis(told("v"), (), (), source=kept)).rows == (
        ("environment OMP_NUM_THREADS", "1"),
        ("measured steps", "20"),
    )


def test_goals_that_lead_to_the_same_setting_are_said_once():
    same = [
        Recommendation(goal, 1, 32, None, None, None, "measured", "use 1 worker")
        for goal in ("fastest", "cheapest")
    ]
    other = Recommendation("knee", 1, 32, None, None, None, "projected", "use 1 worker")
    found = advice(Analysis(told("v"), (), (), recommendations=(*same, other)))
    assert [(one.goals, one.condition) for one in found] == [
        ("fastest, cheapest", "measured"),
        ("best value", "projected"),
    ]


def test_how_it_was_measured_is_one_sentence_of_what_is_known():
    workers = {"device_name": ["T4"], "host": ["a", "b"], "torch": ["2.13.0"], "backend": []}
    source = {"command": "train.py", "workers": workers, "trials": 8, "started": "2026-11-15T03:45:45+00:00"}
    assert measured_how(Analysis(told("v"), (), (), source=source)) == (
        "Measured with train.py: on T4, host a and b, torch 2.13.0, runs: 8, begun 2026-11-15."
    )
    assert measured_how(Analysis(told("v"), (), (), source={"table": "times.csv"})) is None


def test_a_proposal_gets_its_half_page_with_hours_of_devices_and_nodes():
    found = {paragraph.title: paragraph.text for paragraph in performance(FULL)}
    assert list(found) == [
        "Problem", "Machine", "Precision and I/O", "Method", "Result", "Limit", "Extrapolated", "Resources",
    ]  # fmt: skip
    assert found["Resources"] == (
        "Time of one training on 8 workers (1 node): 1.90 h (1.80-2.00 h), measured. "
        "That is 15.20 ± 0.76 GPU-h and 1.900 ± 0.095 node-h."
    )
    assert "11,175,370 parameters" in found["Problem"]
    assert "Gradients are communicated in 32 bit." in found["Precision and I/O"]
    assert found["Extrapolated"].startswith("16 workers, not measured: speed-up 11.2 ± 2.2")
    assert 120 < sum(len(text.split()) for text in found.values()) < 300  # half a page


def test_a_worker_without_a_gpu_is_not_charged_as_one():
    cpu = replace(FULL, source={"workers": {"device": ["cpu"]}})
    assert performance(cpu)[-1].text.count("CPU-worker-h") == 1
    assert "GPU" not in text_report(cpu)


def test_a_lab_report_does_not_call_stable_what_still_rises():
    still = replace(FULL, convergence=replace(FULL.convergence, censored=True))
    assert "Accuracy is stable from epoch" in lab_markdown(FULL, figures=None)
    assert "Accuracy was still rising at the last epoch" in lab_markdown(still, figures=None)
    assert "Accuracy is stable from epoch" not in lab_markdown(still, figures=None)


def test_the_lab_report_fills_formulas_with_the_students_own_numbers_and_leaves_the_meaning():
    blocks = lab_blocks(FULL)
    formulas = [block.tex for block in blocks if isinstance(block, Formula)]
    assert formulas[0] == r"S(2) = \frac{X(2)}{X(1)} = \frac{2880}{1600} = 1.80"
    assert formulas[1] == r"E(2) = \frac{S(2)}{2} = \frac{1.80}{2} = 90\,\%"
    assert [block.text for block in blocks if isinstance(block, Heading)] == [
        "Question", "Setup", "Results", "Discussion", "Conclusion",
    ]  # fmt: skip
    assert sum(isinstance(block, Blank) for block in blocks) >= 8


def test_the_lab_report_of_epoch_times_divides_times():
    times = {1: 62.1, 2: 38.0}
    points = tuple(
        Profile(
            Point(f"w{n}", n, scaling="strong"), "ok", None, epoch_s=Estimate(t), speedup=Estimate(62.1 / t),
            efficiency_ratio=Estimate(62.1 / t / n),
        )
        for n, t in times.items()
    )  # fmt: skip
    formulas = [
        block.tex for block in lab_blocks(Analysis(told("v"), points, ())) if isinstance(block, Formula)
    ]
    assert formulas[0] == r"S(2) = \frac{T(1)}{T(2)} = \frac{62.1}{38.0} = 1.63"


def test_tidy_csv_has_one_row_per_point_and_quantity_with_the_raw_value():
    rows = list(csv.DictReader(io.StringIO(tidy_csv([("a", FULL), ("b", FULL)]))))
    (found,) = [r for r in rows if (r["study"], r["point"], r["quantity"]) == ("a", "w4-b64", "step_s")]
    assert float(found["value"]) == pytest.approx(0.05)
    assert (found["observations"], found["kind"]) == ("5", "measured")
    kinds = {"measured", "projected", "refused", "option", "trained", "probed", "device"}
    assert {r["kind"] for r in rows} == kinds
    (hours,) = [
        r
        for r in rows
        if (r["study"], r["kind"], r["workers"], r["quantity"]) == ("a", "option", "8", "worker_s")
    ]
    assert float(hours["value"]) == pytest.approx(8 * 1.9 * 3600)
    (reached,) = [
        r for r in rows if (r["study"], r["point"], r["quantity"]) == ("b", "w8-b64", "time_to_target_s")
    ]
    assert (reached["value"], reached["high"]) == ("120.0", "")  # some seed never reached it
    (lost,) = [r for r in rows if (r["study"], r["state"]) == ("a", "oom")]
    assert (lost["point"], lost["quantity"], lost["value"]) == ("w1-b1024", "", "")
    assert all(None not in row and len(row) == len(COLUMNS) for row in rows)


def test_what_was_probed_is_in_the_csv_beside_what_is_promised():
    rows = [
        r for r in csv.DictReader(io.StringIO(tidy_csv([("", FULL)]))) if r["kind"] in ("probed", "device")
    ]
    found = {(r["backend"], r["varied"], r["quantity"]): r for r in rows}
    link = found["nccl", "link=between", "bytes_per_s"]
    assert (link["workers"], float(link["value"])) == ("8", pytest.approx(9e9))
    assert found["nccl", "link=between", "spec_bytes_per_s"]["value"] == "12500000000.0"
    assert ("gloo", "link=inside", "spec_bytes_per_s") not in found  # nothing is promised of it
    row = found["gloo", "link=inside op=all_reduce size_bytes=1024", "seconds"]
    assert float(row["low"]) < float(row["value"]) == pytest.approx(2e-5 + 1024 / 2e9)
    assert found["", "worker=0 name=T4", "spec_float32_per_s"]["value"] == "8100000000000.0"
    assert found["", "worker=1 name=EPYC", "copy_per_s"]["observations"] == "5"


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", " =1"])
def test_a_cell_is_never_a_formula(text):
    assert csv_cell(text).startswith("'")


@pytest.mark.parametrize("text", ["-0.5", "+1e-3", "12", "-3.", "w1", "mnist -x", ""])
def test_numbers_and_ordinary_text_stay_as_they_are(text):
    assert csv_cell(text) == text


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("\\input{x}", r"\textbackslash{}input\{x\}"),
        ("50% of $5 & #1_a^b~c", r"50\% of \$5 \& \#1\_a\textasciicircum{}b\textasciitilde{}c"),
        ("--workers", "-{}-workers"),
        ("1 ± 2", r"1 $\pm$ 2"),
        ("été", "été"),
        ("漢", "[U+6F22]"),
        ("a\nb", "a b"),
    ],
)
def test_latex_sets_text_as_it_is(text, escaped):
    assert latex_text(text) == escaped


def test_markdown_shows_text_as_it_is():
    assert markdown_text("<b> a|b `c` *d* [e](f)\n# g") == r"&lt;b&gt; a\|b \`c\` \*d\* \[e\](f) \# g"


def test_control_characters_become_visible_and_lines_stay():
    assert visible("a\x1b[31m\tb\nc\u202e") == "a�[31m\tb\nc�"
    assert ascii_text("1 → 2 ± 3 µs") == "1 -> 2 +/- 3 us"


def test_a_hostile_table_keeps_its_shape_in_every_form():
    table = Table(
        "t", HOSTILE, (Column(HOSTILE, number=False), Column("n")), ((HOSTILE, "1"), ("a\nb|c", "2"))
    )
    assert [len(row) for row in csv.reader(io.StringIO(csv_of(table)))] == [2, 2, 2]
    body = markdown_of(table).splitlines()
    assert len(body) == 4
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 3 for line in body)
    assert len(plain_of(table, width=200).splitlines()) >= 4
    rows = [line for line in latex_of(table).splitlines() if line.endswith(r"\\")]
    assert [len(re.findall(r"(?<!\\)&", row)) for row in rows] == [1, 1, 1]


@pytest.mark.parametrize("name", FORMS)
def test_hostile_names_are_harmless_in_every_form(name):
    made = FORMS[name](hostile())
    assert "\x1b" not in made
    if name.endswith(".md"):
        assert "<script" not in made
    if name.endswith(".tex"):
        assert r"\input" not in made
        assert "<" not in made
    if name == "report.csv":
        rows = list(csv.reader(io.StringIO(made)))
        assert {len(row) for row in rows} == {len(COLUMNS)}
        assert not [cell for row in rows[1:] for cell in row if cell[:1] in "=@+" and cell]
    if name == "report.txt":
        assert made.isascii()


@pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="no pdflatex: install a TeX to compile the LaTeX"
)
@pytest.mark.parametrize("analysis", [FULL, hostile()], ids=["full", "hostile"])
@pytest.mark.parametrize("form", ["report", "lab", "proposal"])
def test_the_latex_compiles(analysis, form, tmp_path):
    forms = {"report": latex_report, "proposal": proposal_latex}
    part = forms[form](analysis, figures=None) if form in forms else ""
    whole = PREAMBLE + "\n" + part + "\\end{document}\n"
    (tmp_path / "report.tex").write_text(whole if part else lab_latex(analysis, figures=None))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "report.tex"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120
    )
    assert done.returncode == 0, done.stdout[-2000:]
    if analysis is FULL:  # words of a hundred letters, which an attack has, cannot be broken
        log = (tmp_path / "report.log").read_text(encoding="latin-1")
        assert re.findall(r"Overfull \\hbox.*", log) == []


def test_a_proposal_is_half_a_page_with_one_table_one_figure_and_node_hours():
    made = proposal_text(FULL)
    assert made.isascii()
    assert max(map(len, made.splitlines())) <= 78
    assert len(made.splitlines()) < 60
    assert "node-h" in made
    assert "speed-up" in made
    paper = proposal_latex(FULL, figures="figures")
    assert (paper.count(r"\begin{table}"), paper.count(r"\begin{figure}")) == (1, 1)


def test_no_line_of_the_text_is_longer_than_78_letters():
    assert max(map(len, text_report(FULL).splitlines())) <= 78
    wide = text_report(replace(FULL, source={"command": "train.py", "note": "many words " * 40}))
    assert max(map(len, wide.splitlines())) <= 78
