"""The command line where people stumble: asking for help, leaving early, a pipe that closes."""

import io
import json
import signal
import subprocess
import sys

import pytest

from paceline import __version__
from paceline.cli.main import exit_code
from paceline.cli.options.complete import datasets, recipes, workloads
from paceline.cli.text.letters import PLAIN
from paceline.cli.text.plan import print_json
from paceline.core.errors import StudyError
from paceline.store.study_file import read_study
from paceline.store.trial_files import read_result
from tests.support.desk import DESK, environment


def shell(command, cwd):
    """One line of bash in which $desk is the desk."""
    line = command.replace("$desk", " ".join(DESK))
    return subprocess.run(
        ["bash", "-c", line], cwd=cwd, env=environment(), capture_output=True, text=True, timeout=60
    )


def test_the_version_needs_no_verb(capsys):
    assert exit_code(["--version"]) == 0
    assert capsys.readouterr().out == f"paceline {__version__}\n"


@pytest.mark.parametrize("verb", ["", "show"])
def test_help_is_a_word_too(verb, capsys):
    assert exit_code(["help", *verb.split()]) == 0
    said = capsys.readouterr().out
    assert exit_code([*verb.split(), "--help"]) == 0
    assert said == capsys.readouterr().out


def test_help_of_a_mistyped_verb_names_the_one_that_is_meant(capsys):
    assert exit_code(["help", "studdy"]) == 1
    assert "  try: paceline study\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("$desk --help | true; echo ${PIPESTATUS[0]}", "0\n"),
        ("$desk --help | head -c 1 >&2; echo ${PIPESTATUS[0]}", "0\n"),
        ("$desk show nowhere 2>&1 | true; echo ${PIPESTATUS[0]}", "1\n"),
    ],
)
def test_a_reader_who_leaves_is_no_error(tmp_path, line, codes):
    done = shell(line, tmp_path)
    assert done.stdout == codes
    assert done.stderr in ("", "U")


@pytest.mark.parametrize(("where", "code"), [(">&-", 0), (">/dev/full", 1)])
def test_output_that_goes_nowhere_gives_no_traceback(tmp_path, where, code):
    done = shell(f"$desk --help {where}", tmp_path)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.parametrize(("verb", "goes_on"), [("study", True), ("show", False)])
def test_an_interruption_is_one_sentence_and_what_goes_on_says_so(verb, goes_on, monkeypatch, capsys):
    def interrupted(*_args, **_kwargs):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("paceline.cli.options.asked.target_of", interrupted)
    monkeypatch.setattr("paceline.cli.verbs.show.read_study", interrupted)
    assert exit_code([verb, "anything"]) == 130
    said = capsys.readouterr().err
    assert said.startswith("paceline: stopped\n")
    assert ("try: the same command again" in said) == goes_on


def test_the_recipes_can_be_read_by_a_program(capsys):
    assert exit_code(["recipe", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {
        "name": "mnist",
        "title": "digits: utilisation against the batch, steps per epoch, two nodes",
    } in listed


def test_a_recipe_can_be_read_by_a_program(capsys):
    assert exit_code(["recipe", "show", "mnist", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["name"], shown["preset"]) == ("mnist", "laptop")
    assert shown["study"]["workload"]["name"] == "mnist"
    assert all(question.endswith("?") for question in shown["asks"])


def test_a_newer_study_and_a_newer_trial_are_refused_and_not_removed(tmp_path):
    newer = tmp_path / "study.toml"
    newer.write_text('format = 9\n[workload]\nname = "t.py"\n')
    with pytest.raises(StudyError, match=r"study.toml has format 9, and this Paceline reads formats up to 1"):
        read_study(newer)
    (tmp_path / "trial.json").write_text('{"format": 9, "started": "", "trial": {}}')
    with pytest.raises(StudyError, match="has format 9") as problem:
        read_result(tmp_path)
    assert "remove" not in problem.value.hint


def in_plain_letters(text):
    """What a terminal of ASCII shows of this text."""
    return text.encode("ascii", PLAIN).decode("ascii")


def test_a_terminal_without_unicode_never_loses_a_unit():
    assert (
        in_plain_letters("148 µs of 14.2 ± 0.3 ms, 2 × 3 → 6 …") == "148 us of 14.2 +- 0.3 ms, 2 x 3 -> 6 ..."
    )
    assert in_plain_letters("漢 é") == "? ?"


def test_json_loses_no_letter_where_stdout_is_ascii(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding="ascii", errors=PLAIN))
    print_json({"name": "漢 µ"})
    sys.stdout.flush()
    assert json.loads(raw.getvalue()) == {"name": "漢 µ"}


@pytest.mark.parametrize(
    ("offered", "begun", "names"),
    [
        (recipes, "mn", ["mnist"]),
        (datasets, "fash", ["fashion-mnist"]),
        (workloads, "cif", ["cifar-resnet18"]),
        (workloads, "", []),  # the shell then offers files
        (workloads, "train.p", []),
    ],
)
def test_the_tab_key_offers_names_that_begin_so(offered, begun, names):
    assert offered(begun) == names


INTERRUPTED = """
import sys

class Hasty:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Hasty())
from paceline.__main__ import main
main()
"""


def test_ctrl_c_before_all_is_imported_prints_no_traceback():
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], env=environment(), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
