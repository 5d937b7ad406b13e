"""The command line, as a person or a pipeline meets it."""

import inspect
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import sysconfig
import time

import pytest

from paceline.analysis.json_file import ANALYSIS_FORMAT
from paceline.cli.main import VERBS, exit_code
from paceline.cli.measure import bench_of, terminated_like_interrupted
from paceline.cli.options.study import SECTIONS
from paceline.cli.text.plan import print_plan
from paceline.cli.verbs.study import study
from paceline.plan.trials import plan_study
from paceline.records import Study, Workload
from paceline.store.analysis_schema import AnalysisFile
from paceline.store.paths import StudyFolder
from paceline.store.trial_files import read_results
from tests.support.desk import DESK, PLAIN_DESK, SCRIPTS, SMALL, desk, drawing_desk, environment

PLAIN = SCRIPTS / "faults_train.py"
ANSWER_S = 0.3


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    """One small real study at 1 and 2 workers, and the folder it was made in."""
    where = tmp_path_factory.mktemp("studied")
    done = desk("study", "--workers", "1,2", *SMALL, "--out", "s", PLAIN, cwd=where)
    assert done.returncode == 0, done.stderr
    return where, done


@pytest.mark.alone
def test_help_answers_at_once(tmp_path):
    times = []
    for _ in range(5):
        began = time.monotonic()
        done = drawing_desk("--help", cwd=tmp_path)
        times.append(time.monotonic() - began)
        assert "study" in done.stdout
    assert min(times) < ANSWER_S


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_of_every_verb_is_text(verb, capsys):
    assert exit_code([*([verb] if verb else []), "--help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: paceline")


def test_help_imports_nothing_heavy(tmp_path):
    code = (
        "import sys\nfrom paceline.cli.main import exit_code\nassert exit_code(['--help']) == 0\n"
        "print(sorted({'torch', 'numpy', 'scipy', 'pydantic', 'psutil'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert done.stdout.endswith("[]\n"), done.stderr


def test_a_study_never_imports_torch_into_the_desk(tmp_path):
    code = (
        "import sys\nfrom paceline.cli.main import exit_code\n"
        f"assert exit_code(['plan', '--workers', '1,2', {str(PLAIN)!r}]) == 0\nassert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("study",), "nothing to study was named"),
        (("study", "nothing"), "neither a file, nor a study folder, nor a workload"),
        (("study", "--workers", "0", "t.py"), "is not a range of counts"),
        (("study", "--workers", "two", "t.py"), "is not a count"),
        (("study", "--timeout", "soon", "t.py"), "is not a duration"),
        (("study", "--scaling", "up", "t.py"), "scaling 'up' is not known"),
        (("study", "--nonsense", "t.py"), "No such option"),
        (("study", "t.py", "--batch-size", "3"), "No such option"),
        (("study", "--steps", "1", "t.py"), "--steps 1 is below 10"),
        (("study", "--python", "nowhere", "t.py"), "no Python at 'nowhere'"),
        (("study", "--vary", "x", "t.py"), "is not KEY=V1,V2"),
        (
            ("study", "--global-batch", "10", "--workers", "1,3", "--batch-flag=-b", "t.py"),
            "cannot be divided",
        ),
        (("study", "train.ipynb"), "train.ipynb is a notebook"),
        (("study", "missing.toml"), "there is no study"),
        (("study", "."), "there is no study"),
        (("show", "nowhere"), "there is no study"),
        (("compare", "a", "b"), "there is no study"),
        (("schema", "verdict"), "there is no schema"),
        (("frobnicate",), "No such command"),
    ],
)
def test_a_mistake_is_one_sentence_and_one_thing_to_do(tmp_path, monkeypatch, capsys, args, said):
    """In this process: a traceback would be an exception here, and a start of the desk costs half a second."""
    (tmp_path / "t.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert exit_code(args) == 1
    printed = capsys.readouterr()
    assert said in printed.err
    assert "  try: " in printed.err
    assert "Traceback" not in printed.err
    assert printed.out == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.py"]


def test_a_plan_warns_of_workers_that_would_share_cores(tmp_path, monkeypatch, capsys):
    many = (os.cpu_count() or 1) + 6
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.py").write_text("")
    assert exit_code(["plan", "--workers", f"1..{many}", "t.py"]) == 0
    printed = capsys.readouterr()
    assert "so they slow each other down" in printed.err
    assert "slow each other down" not in printed.out
    assert exit_code(["plan", "--workers", "1", "--threads", "1", "t.py"]) == 0
    assert capsys.readouterr().err == ""


def test_a_table_that_gives_no_answer_does_not_pass_a_pipeline(tmp_path, capsys):
    table = tmp_path / "impossible.csv"
    table.write_text("workers,images_per_s\n1,100\n2,900\n4,3600\n")
    assert exit_code(["analyze", str(table)]) == 2
    assert "does not say how many workers to use" in capsys.readouterr().err


def test_a_mistake_ends_the_desk_with_one_sentence(tmp_path):
    done = desk("study", "nothing", cwd=tmp_path)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 2)
    assert "neither a file, nor a study folder, nor a workload" in done.stderr


def test_without_a_word_there_is_help(tmp_path):
    done = desk(cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: paceline")


def test_a_mistyped_verb_names_the_one_that_is_meant(tmp_path):
    assert "  try: paceline study\n" in desk("studdy", cwd=tmp_path).stderr


def test_script_args_after_the_dashes_are_the_scripts_own(tmp_path):
    done = desk("plan", "--workers", "2", "--json", "t.py", "--", "--workers", "9", "--", "-x", cwd=tmp_path)
    assert json.loads(done.stdout)["trials"][0]["args"] == ["--workers", "9", "--", "-x"]


def test_a_module_takes_all_words_as_its_args(tmp_path):
    done = desk("plan", "--json", "-m", "a.b", "--", "--x", "1", cwd=tmp_path)
    assert json.loads(done.stdout)["trials"][0]["args"] == ["--x", "1"]


def test_weak_and_strong_scaling_work_on_a_script_that_has_only_a_batch_flag(tmp_path):
    asked = (
        "--workers",
        "1,2",
        "--scaling",
        "both",
        "--per-worker-batch",
        "32",
        "--batch-flag",
        "--batch-size",
    )
    done = desk("plan", "--json", *asked, "--repeats", "1", "t.py", "--", "--batch-size=8", cwd=tmp_path)
    trials = {trial["id"]: trial["args"] for trial in json.loads(done.stdout)["trials"]}
    sizes = {"w1-b32-1": 32, "w2-b32-1": 32, "w2-g32-1": 16}  # one worker alone is the same setting in both
    assert trials == {name: [f"--batch-size={size}"] for name, size in sizes.items()}


def test_a_dry_run_prints_commands_and_price_and_leaves_nothing(tmp_path):
    done = desk("study", "--dry-run", "--workers", "1,2", PLAIN, cwd=tmp_path)
    assert "--nproc-per-node 2" in done.stdout
    assert "device seconds" in done.stdout
    assert "per worker, the same at every setting (OMP_NUM_THREADS)" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_verdict_comes_first_and_progress_goes_elsewhere(studied):
    _, done = studied
    lines = done.stdout.splitlines()
    assert "worker" in lines[0]
    assert "step ms" in lines[2]
    assert "run w2-1" in done.stderr
    assert "run w2-1" not in done.stdout


def test_a_study_says_what_it_runs_without_what_starts_it(studied):
    _, done = studied
    plan = done.stderr.partition("trial ")[0]
    assert plan.count(str(PLAIN)) == 1
    assert "torch.distributed.run" not in plan


def test_a_point_whose_arguments_are_its_own_shows_them(tmp_path):
    asked = Study(
        Workload("script", "t.py", batch_flag="--batch"), per_worker_batch=(8,), directory=str(tmp_path)
    )
    said = io.StringIO()
    print_plan(
        StudyFolder(tmp_path),
        asked,
        plan_study(asked),
        results=(),
        bench=bench_of(asked, threads=1),
        file=said,
    )
    assert "on 1 worker\n    t.py --batch 8\n" in said.getvalue()


def test_help_of_many_options_is_grouped_and_leaves_none_out(tmp_path):
    short, text = (desk("study", asked, cwd=tmp_path).stdout for asked in ("--help", "--help-all"))
    assert len(short.splitlines()) < 60
    rest = short.rpartition("\n\n")[2].splitlines()  # it names the rest
    assert rest[0].startswith("More with --help-all: Memory, ")
    assert set(short.splitlines()) - set(text.splitlines()) == set(rest)
    headings = re.findall(r"^(\S.*):$", text, re.MULTILINE)
    assert headings == ["Arguments", *SECTIONS]
    taken = {name for name in inspect.signature(study).parameters if name != "words"} | {"help"}
    assert {name for names in SECTIONS.values() for name in names} == taken
    flags = set(re.findall(r"^  (?:-\w, )?--([a-z-]+)", text, re.MULTILINE))
    assert flags == {name.replace("_", "-") for name in taken}


def test_json_is_the_analysis_and_nothing_else_and_follows_its_schema(studied):
    where, _ = studied
    done = desk("show", "s", "--json", cwd=where)
    data = json.loads(done.stdout)
    AnalysisFile.model_validate(data, strict=False)
    assert data == json.loads((where / "s" / "analysis.json").read_text())
    two = data["points"][1]
    assert (two["id"], two["workers"], two["nodes"], two["state"], two["reason"]) == ("w2", 2, 1, "ok", None)
    assert set(two["step_s"]) == {"value", "low", "high", "n"}


def test_a_complete_study_runs_nothing_again(studied):
    where, _ = studied
    before = read_results(StudyFolder(where / "s"))
    for target in (("s",), ("s/study.toml",), ("--out", "s", str(PLAIN))):
        done = desk("study", *target, cwd=where)
        assert done.returncode == 0, done.stderr
        assert "every run is complete" in done.stderr
        assert "run w" not in done.stderr
    assert read_results(StudyFolder(where / "s")) == before


def test_looking_at_a_study_changes_nothing(studied):
    where, _ = studied
    before = {path: path.stat().st_mtime_ns for path in (where / "s").rglob("*")}
    assert desk("show", "s", cwd=where).returncode == 0
    assert desk("compare", "s", "s", cwd=where).returncode == 0
    assert {path: path.stat().st_mtime_ns for path in (where / "s").rglob("*")} == before


def test_another_script_in_the_same_folder_is_refused(studied):
    where, _ = studied
    done = desk("study", "--out", "s", SCRIPTS / "faults_spawn.py", "--", "{workers}", cwd=where)
    assert done.returncode == 1
    assert "holds a study of" in done.stderr


def test_the_end_of_one_trial_can_be_seen(studied):
    where, _ = studied
    assert desk("show", "s", "--trial", "w2-1", cwd=where).stdout.startswith("w2-1: ok")
    assert "has no complete run w9-1" in desk("show", "s", "--trial", "w9-1", cwd=where).stderr


def test_a_study_compared_with_itself_shows_no_difference(studied):
    where, _ = studied
    done = desk("compare", "s", "s/analysis.json", cwd=where)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("No difference shown")


@pytest.mark.parametrize(
    ("condition", "code"), [("step@2>1us", 3), ("step@2>1h", 0), ("efficiency@8<0.7", 2), ("nonsense", 1)]
)
def test_a_threshold_gives_a_pipeline_its_exit_code(studied, condition, code):
    where, _ = studied
    assert desk("compare", "s", "s", "--fail-if", condition, cwd=where).returncode == code
    assert desk("show", "s", "--fail-if", condition, cwd=where).returncode == code


def test_a_study_file_is_enough_and_a_budget_is_kept(tmp_path):
    text = f'workers = [1]\nsteps = 10\nbudget_device_s = 1.0\n[workload]\nname = "{PLAIN}"\n'
    (tmp_path / "mine.toml").write_text(text)
    done = desk("study", "mine.toml", cwd=tmp_path)
    assert "stopped by the budget: 0 of 1 device seconds are spent" in done.stderr
    assert done.returncode == 2
    assert (tmp_path / "paceline-mine" / "study.toml").exists()


def test_a_terminal_gets_a_live_table_and_a_reader_gets_the_data(tmp_path):
    leader, follower = pty.openpty()
    command = [*PLAIN_DESK, "study", "--workers", "1", *SMALL, "--out", "s", str(PLAIN)]
    terminal = {**environment(), "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(command, cwd=tmp_path, env=terminal, stdout=subprocess.PIPE, stderr=follower)
    os.close(follower)
    seen = b""
    while True:
        try:
            chunk = os.read(leader, 65536)
        except OSError:
            break
        if not chunk:
            break
        seen += chunk
    stdout, _ = process.communicate(timeout=60)
    os.close(leader)
    assert process.returncode == 0
    assert b"runs" in seen
    assert b"starting" in seen
    assert not re.search(rb"\x1b\[[0-9;]*[349][0-7]m", seen)  # NO_COLOR
    assert stdout.decode().startswith("1 worker")


def test_a_terminal_without_unicode_gets_no_traceback(studied):
    where, _ = studied
    plain = {**environment(), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*DESK, "show", "s"], cwd=where, env=plain, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_schema_is_json_and_says_its_version(tmp_path):
    for of, version in (("analysis", ANALYSIS_FORMAT), ("study", 1)):
        data = json.loads(desk("schema", of, cwd=tmp_path).stdout)
        assert data["version"] == version
        assert data["properties"]["format"]


def test_a_script_runs_in_an_interpreter_that_has_torch_and_no_paceline(tmp_path):
    other = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", other], check=True)
    (site,) = other.glob("lib/python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib"))  # torch, but no editable install
    script = tmp_path / "train.py"
    script.write_text(
        "import importlib.util, runpy, sys\n"
        "assert importlib.util.find_spec('paceline') is None\n"
        f"assert sys.prefix == {str(other)!r}, sys.prefix\n"
        f"runpy.run_path({str(PLAIN)!r}, run_name='__main__')\n"
    )
    alone = {key: value for key, value in environment().items() if key != "PYTHONPATH"}
    command = [
        *PLAIN_DESK,
        "study",
        "--workers",
        "1",
        *SMALL,
        "--python",
        other / "bin/python",
        "--out",
        "s",
        script,
    ]
    done = subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [result.state for result in read_results(StudyFolder(tmp_path / "s"))] == ["ok"]


def test_what_nohup_made_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with terminated_like_interrupted():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGHUP, before)
