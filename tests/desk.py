"""The desk as a user starts it, for tests: the command line in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

from paceline.launch.processes import tagged
from paceline.store.paths import StudyFolder

ROOT = Path(__file__).parent.parent
SCRIPTS = ROOT / "tests" / "scripts"
DESK = (sys.executable, "-m", "paceline.cli.main")
SMALL = ("--steps", "10", "--warmup", "2", "--repeats", "1")


def environment():
    kept = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    return {**kept, "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1"}


def desk(*args, cwd, timeout=120):
    """Run the desk to its end."""
    command = [*DESK, *map(str, args)]
    return subprocess.run(
        command, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=timeout
    )


def started_desk(*args, cwd):
    """Start the desk and go on."""
    command = [*DESK, *map(str, args)]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=cwd, env=environment(), stdout=quiet, stderr=quiet)


def processes_of(folder):
    """What still runs under the study in this folder."""
    return tagged(StudyFolder(Path(folder)).tag)
