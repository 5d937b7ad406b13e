"""What the emitted sbatch script executes, whatever the names: recorded by the shell that runs it.

bash writes every command down before it runs it (a DEBUG trap, in subshells too), and the program that stands for
Paceline's Python writes down its words. The script of plain names tells what should be there.
"""

import contextlib
import json
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from paceline.core.errors import UsageError
from paceline.records import Allocation
from paceline.slurm.script import Job, sbatch_script
from tests.attack.chance import SEED, attempts, chance, hostile
from tests.support.desk import DESK, SCRIPTS, ended

TRAP = 'set -T; trap \'printf "%s\\0" "$BASH_COMMAND" >> "$RECORD"\' DEBUG; module() { :; }\n'
PYTHON = f"#!{sys.executable}\nimport json, os, sys\n" + (
    "with open(os.environ['WORDS'], 'a') as file:\n    file.write(json.dumps(sys.argv[1:]) + '\\n')\n"
)
PLAIN = Allocation(partition="p", account="a", gres="g", constraint="c", modules=("m",), options=("qos=q",))
JOB = Job("job", "/s/plain", "python", 1, 1, "/s/plain/slurm")


def executed(text, where):
    """The commands that bash ran, and the words that Python was started with."""
    record, words = where / "record", where / "words"
    for path in (record, words):
        path.unlink(missing_ok=True)
    (where / "job.sbatch").write_text(text)
    (where / "trap").write_text(TRAP)
    own = {"BASH_ENV": where / "trap", "RECORD": record, "WORDS": words, "PATH": "/usr/bin:/bin"}
    environment = {name: str(value) for name, value in own.items()}
    command = ["bash", str(where / "job.sbatch")]
    subprocess.run(command, cwd=where / "cwd", env=environment, capture_output=True, timeout=20, check=True)
    ran = record.read_text().split("\0")[:-1]
    return [command.split()[0].partition("=")[0] for command in ran], [
        json.loads(line) for line in words.read_text().splitlines()
    ]


def attacked(rng, python):
    """A request with one hostile value somewhere."""
    value = hostile(rng)
    name = rng.choice(
        ("folder", "output", "name", "partition", "account", "gres", "constraint", "modules", "options")
    )
    job = replace(JOB, python=python)
    if name in ("folder", "output", "name"):
        return name, PLAIN, replace(job, **{name: value if name == "name" else f"/s/{value}"})
    given = {"modules": (value,), "options": (f"comment={value}",)}.get(name, value)
    return name, replace(PLAIN, **{name: given}), job


def test_no_name_puts_a_command_into_the_script(tmp_path, figures):
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    (tmp_path / "cwd").mkdir()
    plain, _ = executed(sbatch_script(PLAIN, replace(JOB, python=str(python))), tmp_path)
    rng, refused, ran = chance("sbatch"), 0, 0
    for _ in attempts(40, 2000):
        name, asked, job = attacked(rng, str(python))
        try:
            text = sbatch_script(asked, job)
        except UsageError:
            refused += 1
            continue
        ran += 1
        commands, words = executed(text, tmp_path)
        assert commands == plain, (SEED, name, text)
        assert words[-1] == ["-m", "paceline", "study", job.folder], (SEED, name, text)
        assert list((tmp_path / "cwd").iterdir()) == [], (SEED, name, text)
        lines = [line for line in text.splitlines() if line.startswith("#SBATCH")]
        assert all(len(shlex.split(line.removeprefix("#SBATCH "))) == 1 for line in lines), (SEED, name, text)
    assert ran > refused / 10
    figures(f"sbatch: {ran} scripts run, {refused} refused, no command but their own")


@pytest.mark.parametrize("out", ["x\ntouch pwned\n#", "s"])
@pytest.mark.parametrize("where", ["y\ntouch pwned\n#", "plain"])
def test_a_line_break_in_out_or_in_the_working_directory_is_refused_before_anything_is_written(
    tmp_path, out, where
):
    cwd = tmp_path / where
    cwd.mkdir()
    shutil.copy(SCRIPTS / "faults_train.py", cwd)
    asked = ("--on", "slurm", "--emit", "sbatch", "--workers", "1", "--out", out, "faults_train.py")
    done = ended((*DESK, "study", *asked), cwd=cwd, timeout=60)
    if (out, where) == ("s", "plain"):
        assert done.returncode == 0, done.stderr
        return
    with contextlib.suppress(FileNotFoundError):  # what the shell would do with it
        script = (cwd / out / "slurm" / "job.sbatch").read_text()
        subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, timeout=20, check=False)
    assert not (tmp_path / "pwned").exists()
    assert done.returncode == 1
    assert "is not one line of text" in done.stderr
    assert sorted(path.name for path in cwd.iterdir()) == ["faults_train.py"]
