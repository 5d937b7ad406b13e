"""The desk as a user starts it, for tests: the command line in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

from paceline.launch.processes import tagged
from paceline.store.paths import StudyFolder

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "tests" / "scripts"
DESK = (sys.executable, "-m", "paceline")
# where vl-convert is not installed a report has tables and no pictures, and costs 0.1 s instead of 2.5
PLAIN_DESK = (
    sys.executable,
    "-c",
    "import sys\nsys.modules['vl_convert'] = None\nfrom paceline.cli.main import main\nmain()",
)
SMALL = ("--steps", "10", "--warmup", "2", "--repeats", "1")


def environment():
    kept = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    return {**kept, "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1"}


def desk(*args, cwd, timeout=120):
    """Run the desk to its end, without vl-convert: most tests look at no picture."""
    return ended((*PLAIN_DESK, *args), cwd=cwd, timeout=timeout)


def drawing_desk(*args, cwd, timeout=120):
    """Run the desk to its end, as it is installed."""
    return ended((*DESK, *args), cwd=cwd, timeout=timeout)


def ended(command, *, cwd, timeout):
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=timeout)


def started_desk(*args, cwd):
    """Start the desk, without vl-convert, and go on."""
    command = [*PLAIN_DESK, *map(str, args)]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=cwd, env=environment(), stdout=quiet, stderr=quiet)


def processes_of(folder):
    """What still runs under the study in this folder."""
    return tagged(StudyFolder(Path(folder)).tag)
