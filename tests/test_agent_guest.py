"""A guest in somebody's process: training is not changed, not broken, and ends as it would have."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import paceline_agent
from tests.trial import SCRIPTS, trial

SOURCE = Path(paceline_agent.__file__).parents[1]


def torchrun(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        *arguments,
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def orders(folder: Path, **more: object) -> dict[str, str]:
    order = {"dir": str(folder), "steps": 1000, "warmup": 6, "profile": 0, "end": False, "workers": 2, **more}
    return {"PACELINE_TRIAL": json.dumps(order), "PYTHONPATH": str(SOURCE)}


@pytest.mark.parametrize(
    "args",
    [
        ("--optimizer", "sgd"),
        ("--optimizer", "adam"),
        ("--accumulate", "3"),
        ("--slow-exchange", "0.0001"),
        ("--optimizer", "adam", "--loader-workers", "1", "--loader-context", "spawn"),
    ],
    ids=["sgd", "adam", "accumulation", "comm hook", "spawned loader"],
)
def test_weights_after_fifty_steps_are_bit_identical_with_and_without_the_agent(tmp_path, args):
    import torch

    script = str(SCRIPTS / "plain_ddp.py")
    weights = {}
    for name in ("bare", "watched"):
        folder = tmp_path / name
        folder.mkdir()
        save = ("--steps", "50", "--save", str(folder), *args)
        if name == "bare":
            ended = torchrun(script, *save)
        else:
            profile = orders(folder, steps=20, profile=5)
            ended = torchrun("-m", "paceline_agent", script, *save, environment=profile)
            assert (folder / "worker-1.jsonl").exists(), ended.stderr
        assert ended.returncode == 0, ended.stderr
        weights[name] = [torch.load(folder / f"weights-{rank}.pt", weights_only=True) for rank in (0, 1)]
    for bare, watched in zip(weights["bare"], weights["watched"], strict=True):
        for key, value in bare.items():
            assert torch.equal(value, watched[key]), key


@pytest.fixture
def alone(monkeypatch):
    """One worker without torchrun: half the processes to start."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    for name, value in {
        "RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    "part",
    [
        "recorder.Recorder.ends_step",
        "recorder.Recorder.close_step",
        "exchange.Exchanges.after_backward",
        "exchange.Exchanges._read_logger",
        "exchange.Exchanges.look",
        "loader.batch_length",
        "loader.fingerprint",
        "loader._loader_info",
        "agent.Agent.begin",
        "agent.Agent._turn",
        "timeline.Timeline.open",
        "timeline.Timeline.step_ended",
        "agent.manifest",
        "files.write_lines",
        "files.Heartbeat",
    ],
)
def test_whatever_breaks_in_the_agent_training_ends_as_it_would_have_and_the_study_says_why(
    tmp_path, part, alone
):
    saved = ("--steps", "60", "--save", str(tmp_path))
    result = trial(
        tmp_path, "sabotage.py", part, "all", *saved, workers=1, steps=20, warmup=6, start="script"
    )
    assert (tmp_path / "weights-0.pt").exists()
    assert result.state == "crashed"
    assert "measuring stopped" in result.reason
    assert "broken on purpose" in result.reason


def test_when_measuring_stops_on_one_worker_the_others_train_on_with_it(tmp_path):
    saved = ("--steps", "60", "--save", str(tmp_path))
    result = trial(tmp_path, "sabotage.py", "recorder.Recorder.close_step", "1", *saved, steps=20, warmup=6)
    assert (tmp_path / "weights-0.pt").exists()
    assert (tmp_path / "weights-1.pt").exists()
    assert result.reason.startswith("worker 1 of 2: measuring stopped")


def test_without_a_folder_to_write_to_training_goes_on_and_says_so(tmp_path):
    saved = str(tmp_path)
    script = (str(SCRIPTS / "plain_ddp.py"), "--steps", "12", "--save", saved)
    ended = torchrun("-m", "paceline_agent", *script, environment=orders(tmp_path / "absent"))
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "weights-1.pt").exists()
    assert "paceline: measuring stopped" in ended.stderr


@pytest.mark.root
def test_a_full_disk_stops_the_measuring_and_nothing_else(tmp_path, small_disk):
    (small_disk / "filler").write_bytes(b"x" * 40_000)
    script = (str(SCRIPTS / "plain_ddp.py"), "--steps", "600", "--save", str(tmp_path))
    ended = torchrun("-m", "paceline_agent", *script, environment=orders(small_disk))
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "weights-1.pt").exists()
    assert not list(small_disk.glob("worker-*.jsonl"))  # no half-written file


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 kB."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], check=False)
    if mounted.returncode:
        pytest.skip("tmpfs cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_without_orders_the_agent_stays_out_of_the_way(tmp_path):
    ended = torchrun(
        "-m",
        "paceline_agent",
        str(SCRIPTS / "plain_ddp.py"),
        "--steps",
        "3",
        "--save",
        str(tmp_path),
        environment={"PYTHONPATH": str(SOURCE), "PACELINE_TRIAL": ""},
    )
    assert ended.returncode == 0, ended.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["weights-0.pt", "weights-1.pt"]
