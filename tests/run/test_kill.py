"""A worker that was orphaned before it began ends itself. Random kills are in tests/attack/test_kills.py."""

import json
import os
import signal
import subprocess
import sys

import pytest

BEGIN = (
    "from paceline_agent.record.host import die_with_parent; die_with_parent(torchrun=True); print('alive')"
)
AROUND = """
import json, os, subprocess, sys
environment = {**os.environ, **json.loads(os.environ["OF_THE_TRIAL"])}
sys.exit(subprocess.run([sys.executable, "-c", os.environ["BEGIN"]], env=environment).returncode)
"""


@pytest.mark.parametrize("lives", [True, False])
def test_a_worker_that_was_orphaned_before_it_began_ends_itself(lives):
    """A kill may come in the tenth of a second in which Python starts: then another process is the parent already."""
    trial = {"PACELINE_TAG": "s:w2-1", "TORCHELASTIC_RUN_ID": "none"}
    own = {**os.environ, "BEGIN": BEGIN, "OF_THE_TRIAL": json.dumps(trial), **(trial if lives else {})}
    argv = [sys.executable, "-c", AROUND]
    ended = subprocess.run(argv, env=own, stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    alive, killed = (0, "alive\n"), (-signal.SIGKILL % 256, "")
    assert (ended.returncode, ended.stdout) == (alive if lives else killed)
