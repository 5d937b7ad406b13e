"""`paceline report`, as a person meets it."""

import json
import shutil
import subprocess
import sys

import pytest

from paceline.analysis.json_file import analysis_data
from paceline.cli.main import exit_code
from paceline.cli.verbs import report as report_cmd
from paceline.core.errors import PacelineError
from paceline.records import Analysis
from paceline.report.charts import draw
from paceline.store.paths import StudyFolder
from tests.support.desk import SCRIPTS, SMALL, desk, drawing_desk, environment
from tests.support.report_sample import FULL, WEAK, told

TABLE = "workers,epoch_s\n1,100\n2,55\n4,32\n"


@pytest.fixture
def folder(tmp_path):
    """A folder with two analyses."""
    for name, analysis in (("a", FULL), ("b", Analysis(told("Use 8 workers."), WEAK, ()))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "analysis.json").write_text(json.dumps(analysis_data(analysis)))
    (tmp_path / "table.csv").write_text(TABLE)
    return tmp_path


def test_the_page_goes_beside_the_analysis_and_its_path_is_said(folder):
    done = drawing_desk("report", "a/analysis.json", cwd=folder)
    assert done.stdout == "Report: a/report.html\n", done.stderr
    text = (folder / "a" / "report.html").read_text()
    assert "Use 8 workers" in text
    assert ("<svg" in text) == draw.can_draw()


def test_a_folder_a_file_and_a_table_are_all_understood(folder):
    for source, html in (
        ("b", "b/report.html"),
        ("b/analysis.json", "b/report.html"),
        ("table.csv", "table.html"),
    ):
        done = desk("report", source, cwd=folder)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"Report: {html}\n"
        assert "worker" in (folder / html).read_text()


def test_several_studies_go_on_one_page_by_the_names_of_their_folders(folder):
    done = desk("report", "a", "b", "--html", "both.html", cwd=folder)
    assert done.returncode == 0, done.stderr
    text = (folder / "both.html").read_text()
    assert "2 studies compared" in text
    assert '<p class="kicker">How does <code>b</code> scale?</p>' in text


@pytest.mark.parametrize(
    ("form", "begins"),
    [
        ("--markdown", "# Scaling of"),
        ("--latex", "% Needs"),
        ("--csv", "study,kind"),
        ("--text", "Scaling of"),
    ],
)
def test_a_form_goes_to_the_output_and_nothing_else_is_made(folder, form, begins):
    done = desk("report", "a", form, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(begins)
    assert [path.name for path in (folder / "a").iterdir()] == ["analysis.json"]


@pytest.mark.skipif(not draw.can_draw(), reason="vl-convert is not installed: pip install 'paceline[report]'")
def test_figures_come_in_three_forms_and_latex_names_them(folder):
    done = drawing_desk("report", "a", "--latex", "--figures", "pictures", cwd=folder)
    assert done.returncode == 0, done.stderr
    made = {path.suffix for path in (folder / "pictures").glob("speedup-weak.*")}
    assert made == {".svg", ".pdf", ".png"}
    for line in done.stdout.splitlines():
        if "includegraphics" in line:
            assert (folder / line.partition("detokenize{")[2].rstrip("}")).exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("nowhere",), "there is no study and no table at nowhere"),
        (("a", "--text", "--csv"), "--csv and --text cannot both go to the output"),
        (("broken.json",), "broken.json cannot be read"),
        (("list.json",), "list.json is not an analysis"),
        (("empty",), "there is no study at empty"),
        (("a", "--html", "no/such/folder.html"), "cannot write no/such/folder.html"),
        ((), "Missing argument"),
    ],
)
def test_a_mistake_is_one_sentence_and_one_thing_to_do(folder, monkeypatch, capsys, args, said):
    (folder / "broken.json").write_text("{")
    (folder / "list.json").write_text("[]")
    (folder / "empty").mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(draw, "can_draw", lambda: False)
    assert exit_code(["report", *args]) == 1
    printed = capsys.readouterr()
    assert said in printed.err
    assert "  try: " in printed.err
    assert "Traceback" not in printed.err
    assert printed.out == ""


def test_a_study_writes_its_report_and_says_where(tmp_path):
    asked = ("study", "--workers", "1", *SMALL, "--out", "s", SCRIPTS / "faults_train.py")
    done = drawing_desk(*asked, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Report: s/report.html" in done.stderr
    text = (tmp_path / "s" / "report.html").read_text()
    assert json.loads((tmp_path / "s" / "analysis.json").read_text())["verdict"]["text"][:8] in text
    shutil.rmtree(tmp_path / "s" / "trials")
    (tmp_path / "s" / "study.toml").unlink()
    again = desk("report", "s", cwd=tmp_path)  # the analysis alone is enough
    assert again.returncode == 0, again.stderr


def test_a_report_that_fails_costs_no_study_its_result(tmp_path, monkeypatch, capsys):
    def broken(studies):
        raise RuntimeError("no ink")

    monkeypatch.setattr(report_cmd, "page", broken)
    report_cmd.report_beside(StudyFolder(tmp_path), FULL)
    assert capsys.readouterr().err == "no report was written: RuntimeError: no ink\n"
    assert list(tmp_path.iterdir()) == []


def test_names_are_the_shortest_ends_of_paths_that_differ(tmp_path):
    found = report_cmd.named([(tmp_path / "x" / "s", FULL), (tmp_path / "y" / "s", FULL)])
    assert [name for name, _ in found] == ["x/s", "y/s"]
    assert [name for name, _ in report_cmd.named([(tmp_path / "x", FULL)])] == [""]
    twice = report_cmd.named([(tmp_path / "x", FULL), (tmp_path / "x", FULL)])
    assert len({name for name, _ in twice}) == 1  # the page numbers them


def test_help_of_other_verbs_does_not_wait_for_the_renderer(tmp_path):
    code = (
        "import sys\nfrom paceline.cli.main import exit_code\n"
        "assert exit_code(['plan', '--workers', '1', 't.py']) == 0\n"
        "print(sorted({'jinja2', 'vl_convert'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert done.stdout.endswith("[]\n"), done.stderr


def test_a_renderer_that_cannot_be_loaded_costs_the_pictures_and_not_the_page(tmp_path, monkeypatch):
    (tmp_path / "vl_convert.py").write_text("raise ImportError('libm.so.6: version not found')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "vl_convert", raising=False)
    assert not draw.can_draw()
    with pytest.raises(
        PacelineError, match=r"vl-convert, .* cannot be loaded: libm\.so\.6: version not found"
    ):
        draw.png({})
