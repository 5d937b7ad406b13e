"""What is said where Slurm's commands are there and nobody answers them."""

import pytest

from paceline.core.errors import PacelineError
from paceline.launch.slurm.client import job_named, submit

SAID = """squeue: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host
squeue: error: fetch_config: DNS SRV lookup failed
squeue: fatal: Could not establish a configuration source"""


@pytest.fixture
def silent(tmp_path, monkeypatch):
    """Commands of Slurm on a machine that no cluster knows."""

    def put(text):
        for name in ("squeue", "sbatch", "scontrol"):
            file = tmp_path / name
            file.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{text}\nEND\nexit 1\n")
            file.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return put


@pytest.mark.parametrize("ask", [lambda path: job_named("x"), lambda path: submit(path / "job.sbatch")])
def test_no_controller_is_one_plain_line_with_one_thing_to_do(ask, silent, tmp_path):
    silent(SAID)
    with pytest.raises(PacelineError) as told:
        ask(tmp_path)
    assert told.value.message == "no Slurm controller can be reached from this machine"
    assert "--emit sbatch" in told.value.hint


def test_another_refusal_keeps_its_own_words(silent):
    silent("squeue: error: Invalid user: nobody")
    with pytest.raises(PacelineError, match="Invalid user"):
        job_named("x")
