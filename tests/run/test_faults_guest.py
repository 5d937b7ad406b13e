"""A script finds what it would find without us, and what it leaves behind is ended with it."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from paceline.launch.processes import end_tagged

SOURCES = Path(__file__).parents[2] / "src"
STARTS_A_CHILD = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"], env={}, start_new_session=True)
print(child.pid, flush=True)
child.wait()
"""


def first_on_path(where, *words, **environment):
    """The folder that a script is given first, and those of PYTHONPATH."""
    known = {**os.environ, "PYTHONPATH": f"{SOURCES}{os.pathsep}{where}", **environment}
    known.pop("PACELINE_TRIAL", None)
    done = subprocess.run(
        [sys.executable, *words], env=known, cwd=where, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("environment", [{}, {"PYTHONSAFEPATH": "1"}])
@pytest.mark.parametrize("words", [["link.py"], ["-m", "shown"]])
def test_modules_are_searched_where_python_searches_them(tmp_path, words, environment):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "script.py").write_text("import sys; print(sys.path[:3])")
    (tmp_path / "shown.py").write_text("import sys; print(sys.path[:3])")
    (tmp_path / "link.py").symlink_to(tmp_path / "there" / "script.py")
    plain = first_on_path(tmp_path, *words, **environment)
    assert first_on_path(tmp_path, "-m", "paceline_agent", *words, **environment) == plain


def test_a_child_with_an_environment_of_its_own_is_ended_with_the_worker_that_started_it():
    tag = f"test-{os.getpid()}:w1-1"
    worker = subprocess.Popen(
        [sys.executable, "-S", "-c", STARTS_A_CHILD],
        env={**os.environ, "PACELINE_TAG": tag},
        stdout=subprocess.PIPE,
    )
    child = psutil.Process(int(worker.stdout.readline()))
    assert end_tagged(tag, grace_s=5.0) == 2
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    worker.communicate(timeout=5)
