"""What others brought with them is shown on the terminal, not sent to it."""

import io
import json
import shutil

import pytest
from rich.console import Console
from rich.live import Live

from paceline.cli.main import exit_code
from paceline.cli.text.guard import guarded, shown, unguarded
from paceline.cli.text.live import LiveTable
from paceline.plan.trials import plan_study
from paceline.records import Study, Workload
from paceline.run.clock import SystemClock
from paceline.run.study import progress_of
from tests.attack.chance import STUDY

CONTROL = "\x1b]0;title\x07\x1b[2J\x9b31m\x7f\u202e\r"
TABLE = f"workers,epoch_s,model\n1,10,a{CONTROL.strip()}\n2,5,a{CONTROL.strip()}\n"


def obeyed(text):
    """The characters in a text that a terminal would obey."""
    return [c for c in text if (ord(c) < 32 and c not in "\t\n\f") or 127 <= ord(c) < 160 or c == "\u202e"]


def test_a_control_character_becomes_what_json_calls_it():
    text = json.dumps({"a": CONTROL}, ensure_ascii=False)
    assert obeyed(shown(text)) == []
    assert json.loads(shown(text)) == {"a": CONTROL}
    assert shown("a\r\nb\rc\td\n\f±µ→") == "a\nb\nc\td\n\f±µ→"


@pytest.mark.parametrize(
    "verb", [("analyze",), ("analyze", "--json"), ("advise",), ("project", "--workers", "4")]
)
@pytest.mark.parametrize("table", [TABLE, TABLE.replace("workers", f"x{CONTROL.strip()}"), CONTROL])
def test_no_cell_or_heading_reaches_the_terminal_as_it_is(tmp_path, capsys, verb, table):
    (tmp_path / "t.csv").write_text(table)
    exit_code([verb[0], str(tmp_path / "t.csv"), *verb[1:]])
    out, err = capsys.readouterr()
    assert out + err
    assert obeyed(out + err) == []


def test_the_tail_of_a_log_is_shown(tmp_path, capsys):
    shutil.copytree(STUDY, tmp_path / "s")
    mark = tmp_path / "s" / "trials" / "w2-1" / "trial.json"
    data = {**json.loads(mark.read_text()), "state": "crashed", "reason": f"no{CONTROL}", "log_tail": CONTROL}
    mark.write_text(json.dumps(data))
    for more in (["--trial", "w2-1"], ["--trial", "w2-1", "--json"], ["--json"], []):
        assert exit_code(["show", str(tmp_path / "s"), *more]) == 0
        out, err = capsys.readouterr()
        assert "u001b]0;title" in out or not more
        assert obeyed(out + err) == []


def test_what_the_script_was_told_is_shown(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.py").write_text("import torch\n")
    assert exit_code(["plan", "t.py", "--", CONTROL]) == 0
    out, err = capsys.readouterr()
    assert "u001b]0;title" in out
    assert obeyed(out + err) == []


def test_a_live_table_draws_itself_and_shows_the_words_of_others():
    study = Study(Workload("script", "t.py"), name=f"a{CONTROL}[/b]")
    file = io.StringIO()
    plan = plan_study(study)
    table = LiveTable(study, folder=None, clock=SystemClock())
    with Live(console=Console(file=file, force_terminal=True), get_renderable=table.drawn):
        table.started(plan.trials[0], progress_of(plan, (), study, left_out=frozenset()))
    assert "]0;title" in file.getvalue()
    assert "\x1b]0;" not in file.getvalue()
    assert "\x1b[2J" not in file.getvalue()


def test_what_must_arrive_byte_for_byte_goes_around(capsys):
    import sys

    with guarded():
        print("\x1b", file=unguarded(sys.stdout))
        print("\x1b")
    assert capsys.readouterr().out == "\x1b\n\\u001b\n"
