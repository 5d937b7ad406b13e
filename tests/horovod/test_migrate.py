"""Migration is a patch that applies to the common patterns, says what it left, and never edits unasked."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.cli.main import exit_code
from paceline.core.errors import UsageError
from paceline.horovod.migrate import migrated, unified_diff

EXAMPLES = Path(__file__).parents[2] / "examples" / "horovod"
SCRIPT = """import horovod.torch as hvd
import torch

hvd.init()  # first of all
if hvd.rank() == 0: print("é", hvd.size())
net = torch.nn.Linear(2, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1 * hvd.size())
opt = hvd.DistributedOptimizer(opt)
hvd.broadcast_parameters(net.state_dict(), root_rank=0)
loss = hvd.allreduce(torch.ones(1), op=hvd.Sum)
torch.save(net.state_dict(), "x.pt")
"""


def test_calls_are_replaced_where_they_stand_and_comments_stay():
    result = migrated(SCRIPT, name="s.py")
    ast.parse(result.text)
    assert "hvd" not in result.text
    assert '  # first of all\nif dist.get_rank() == 0: print("é", dist.get_world_size())\n' in result.text
    assert "net = DistributedDataParallel(net)\n" in result.text
    assert "loss = summed_over_ranks(torch.ones(1))\n" in result.text
    assert 'torch.save(net.module.state_dict(), "x.pt")\n' in result.text
    assert result.by_hand == ()


def test_what_has_no_counterpart_is_named_with_its_line():
    text = SCRIPT + "hvd.join()\n"
    result = migrated(text, name="s.py")
    assert "hvd.join()" in result.text
    assert [line for line, _ in result.by_hand] == [12]


def test_a_script_without_horovod_is_refused():
    with pytest.raises(UsageError, match=r"does not import horovod\.torch"):
        migrated("import torch\n", name="s.py")
    with pytest.raises(UsageError, match="not Python"):
        migrated("import (\n", name="s.py")


def test_the_diff_turns_one_text_into_the_other():
    after = migrated(SCRIPT, name="s.py").text
    lines = unified_diff(SCRIPT, after, name="s.py").splitlines()
    assert [line[1:] for line in lines[2:] if line[0] == "+"]
    removed = [line[1:] for line in lines[2:] if line[0] == "-"]
    assert all(line in SCRIPT for line in removed)


def test_nothing_is_written_unless_asked(tmp_path, capsys):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    assert exit_code(["horovod", "migrate", str(script)]) == 0
    assert script.read_text() == SCRIPT
    assert "+net = DistributedDataParallel(net)" in capsys.readouterr().out
    assert exit_code(["horovod", "migrate", str(script), "--write"]) == 0
    assert script.read_text() == migrated(SCRIPT, name="s.py").text


def test_the_migrated_example_trains_under_torchrun_without_any_horovod(tmp_path):
    script = tmp_path / "classic.py"
    script.write_text(migrated((EXAMPLES / "classic.py").read_text(), name="classic.py").text)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    arguments = ["--epochs", "1", "--checkpoint", str(tmp_path / "c.pt")]
    done = subprocess.run([*launcher, str(script), *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "on 2 workers" in done.stdout


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_the_examples_train_as_horovodrun_would_run_them(script, tmp_path):
    command = [sys.executable, "-m", "paceline", "horovod", "run", "-np", "2", "python", str(script)]
    command[command.index("python")] = sys.executable
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "accuracy 1.000" in done.stdout or "loss 0." in done.stdout


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["run", "python", "x.py"], "-np"),
        (["run", "-np", "none", "python", "x.py"], "not a number"),
        (["run", "-np", "2", "--reset-limit", "-1", "python", "x.py"], "--reset-limit"),
        (["run", "-np", "2"], "the command"),
        (["run", "-np", "3", "-H", "localhost:2", "python", "x.py"], "more workers"),
        (["run", "-np", "2", "-H", "elsewhere:x", "python", "x.py"], "host:slots"),
        (["run", "-np", "2", "-H", "localhost", "python", "x.py"], "host:slots"),
        (["run", "--unheard-of", "python", "x.py"], "--unheard-of"),
        (["walk"], "neither run nor migrate"),
        (["migrate"], "one script"),
        (["migrate", "absent.py"], "no script"),
    ],
)
def test_a_wrong_request_is_one_sentence_and_exit_code_1(args, word, capsys):
    assert exit_code(["horovod", *args]) == 1
    assert word in capsys.readouterr().err
