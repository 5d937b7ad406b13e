"""Faults that are really there: the doctor names each, says what to do, and finds nothing where there is none."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOT_ONLY = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and namespaces of its own"
)


def doctor(*words, before=None, within=(), **environment):
    """The checks by their ids, the exit code and what stderr said."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "NCCL_", "GLOO_", "MASTER_"))}
    done = subprocess.run(
        [*within, sys.executable, "-m", "paceline", "doctor", "--json", *map(str, words)],
        env={**plain, **environment}, capture_output=True, text=True, preexec_fn=before, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return {check["id"]: check for check in json.loads(done.stdout)}, done


def test_where_nothing_is_wrong_nothing_is_said_to_be():
    checks, done = doctor(GLOO_SOCKET_IFNAME="lo", NCCL_SOCKET_IFNAME="^docker", OMP_NUM_THREADS="1")
    assert len(checks) >= 16
    shared = {"busy", "leftovers"}  # other tests run beside this one
    assert {name for name, c in checks.items() if c["state"] in ("doubt", "void")} - shared == set()
    assert done.returncode == 0
    assert checks["torch"]["said"].startswith("torch 2.")


@pytest.fixture(scope="module")
def ill():
    """Everything that can be wrong at once without root, and what is known of it."""
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    sleeps = [sys.executable, "-c", "import time; time.sleep(240)", "torch.distributed.run"]
    parent = f"import subprocess as s; print(s.Popen({sleeps!r}, stdout=s.DEVNULL, stderr=s.DEVNULL).pid)"
    orphan = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True, check=True)
    with socket.create_server(("127.0.0.1", 0)) as held:
        environment = {
            "GLOO_SOCKET_IFNAME": "eth77", "OMP_NUM_THREADS": "4096", "NCCL_P2P_DISABLE": "1",
            "MASTER_PORT": str(held.getsockname()[1]),
        }  # fmt: skip
        try:
            yield *doctor(before=_few_files, **environment), busy.pid, int(orphan.stdout)
        finally:
            busy.kill()
            busy.wait()
            os.kill(int(orphan.stdout), signal.SIGKILL)


def _few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))


@pytest.mark.parametrize(
    ("check", "state", "said", "command"),
    [
        ("interface", "void", "eth77", "unset GLOO_SOCKET_IFNAME"),
        ("threads", "doubt", "4096 on", "export OMP_NUM_THREADS="),
        ("nccl-paths", "doubt", "between GPUs", "unset NCCL_P2P_DISABLE"),
        ("open-files", "doubt", "at most 512", "ulimit -n"),
        ("ports", "doubt", "is held by", "unset MASTER_PORT"),
    ],
)
def test_a_fault_is_named_with_the_command_that_mends_it(ill, check, state, said, command):
    found = ill[0][check]
    assert found["state"] == state
    assert said in found["said"]
    assert found["command"].startswith(command)


def test_who_holds_a_port_is_named(ill):
    assert str(os.getpid()) in ill[0]["ports"]["said"]


def test_an_error_is_the_exit_code_and_a_warning_is_not(ill):
    assert ill[1].returncode == 3
    assert "no training can work here: network interface" in ill[1].stderr


@pytest.mark.alone
def test_a_busy_core_is_found_with_who_keeps_it_busy(ill):
    checks, _, busy, _ = ill
    assert checks["busy"]["state"] == "doubt"
    assert str(busy) in checks["busy"]["said"]


def test_a_worker_that_outlived_its_torchrun_is_found(ill):
    """Its parent is gone, so that it belongs to the machine's first process."""
    checks, _, _, orphan = ill
    assert checks["leftovers"]["state"] == "doubt"
    assert str(orphan) in checks["leftovers"]["said"]


@pytest.mark.root
@ROOT_ONLY
def test_what_namespaces_make_wrong_is_found(tmp_path):
    """Loopback is down, /dev/shm is small, and so is the disk of the study."""
    mounts = f"mount -t tmpfs -o size=8m none /dev/shm && mount -t tmpfs -o size=8m none {tmp_path}"
    within = ("unshare", "--net", "--mount", "sh", "-c", f'{mounts} && exec "$@"', "sh")
    checks, done = doctor("--folder", tmp_path, within=within)
    assert checks["ports"]["state"] == "void"
    assert checks["shared-memory"]["state"] == "doubt"
    assert "--shm-size" in checks["shared-memory"]["hint"]
    assert checks["disk"]["state"] == "doubt"
    assert "tmpfs" in checks["disk"]["said"]
    assert done.returncode == 3


def test_a_python_without_torch_is_an_error(tmp_path):
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    checks, done = doctor("--python", bare, NCCL_SOCKET_IFNAME="=lo0x", OMP_NUM_THREADS="two")
    assert checks["torch"]["state"] == "void"
    assert checks["interface"]["command"] == "unset NCCL_SOCKET_IFNAME"
    assert checks["threads"]["said"] == "OMP_NUM_THREADS=two is no count"
    assert done.returncode == 3


def test_a_study_says_what_is_wrong_before_it_starts(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "paceline", "study", "--workers", "1", "--out", tmp_path / "s", "--repeats", "1",
         "--steps", "10", "--warmup", "2", ROOT / "tests" / "scripts" / "alone.py"],
        env={**os.environ, "TP_SOCKET_IFNAME": "eth77"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "ERROR: TP_SOCKET_IFNAME=eth77" in done.stderr
    assert done.stderr.index("ERROR: TP_SOCKET") < done.stderr.index("run w1-1")
