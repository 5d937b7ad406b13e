"""A guest in somebody's process: training is not changed, not broken, and ends as it would have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import paceline_agent
from tests.support.trial import SCRIPTS, trial
from tests.support.warm import WarmLauncher, run_ranks

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


TRAININGS = {
    "sgd": ("--optimizer", "sgd"),
    "adam": ("--optimizer", "adam"),
    "accumulation": ("--accumulate", "3"),
    "comm hook": ("--slow-exchange", "0.0001"),
}
SPAWNED_LOADER = ("--loader-workers", "1", "--loader-context", "spawn")


def fifty_steps(folder: Path, *args: str) -> tuple[str, ...]:
    folder.mkdir()
    return ("--steps", "50", "--save", str(folder), *args)


def weights_in(folder: Path) -> list[dict[str, Any]]:
    import torch

    return [torch.load(folder / f"weights-{rank}.pt", weights_only=True) for rank in (0, 1)]


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The weights that each training comes to where no agent is; started once, for a start costs most."""
    home = tmp_path_factory.mktemp("bare")
    asked = [fifty_steps(home / name, *args) for name, args in TRAININGS.items()]
    ended = torchrun(str(SCRIPTS / "several_ddp.py"), json.dumps(asked))
    assert ended.returncode == 0, ended.stderr
    return {name: weights_in(home / name) for name in TRAININGS}


@pytest.mark.parametrize(
    ("training", "more"), [("sgd", ()), ("accumulation", ()), ("comm hook", ()), ("adam", SPAWNED_LOADER)]
)
def test_weights_after_fifty_steps_are_bit_identical_with_and_without_the_agent(
    tmp_path, bare, training, more
):
    import torch

    folder = tmp_path / "watched"
    asked = fifty_steps(folder, *TRAININGS[training], *more)
    command = ("-m", "paceline_agent", str(SCRIPTS / "plain_ddp.py"), *asked)
    orders_here = orders(folder, steps=20, profile=5)
    if more:  # the loader's workers enter by the interpreter that starts them
        ended = torchrun(*command, environment=orders_here)
        assert ended.returncode == 0, ended.stderr
    else:
        for code, output in run_ranks(2, *command, **orders_here):
            assert code == 0, output
    assert (folder / "worker-1.jsonl").exists()
    for unwatched, watched in zip(bare[training], weights_in(folder), strict=True):
        assert unwatched.keys() == watched.keys()
        for key, value in unwatched.items():
            assert torch.equal(value, watched[key]), key


@pytest.mark.parametrize(
    "part",
    [
        "record.recorder.Recorder.ends_step",
        "record.recorder.Recorder.close_step",
        "watch.ddp.DdpSource.after_backward",
        "watch.ddp.DdpSource._read_logger",
        "watch.ddp.DdpSource.look",
        "watch.communications.Communications.open",
        "watch.communications.Communications.close",
        "watch.loader.batch_length",
        "watch.loader.fingerprint",
        "watch.loader._loader_info",
        "agent.Agent.begin",
        "agent.Agent._turn",
        "watch.timeline.Timeline.open",
        "watch.timeline.Timeline.step_ended",
        "agent.manifest",
        "record.files.write_lines",
        "record.files.Heartbeat",
    ],
)
def test_whatever_breaks_in_the_agent_training_ends_as_it_would_have_and_the_study_says_why(
    tmp_path, part, alone
):
    saved = ("--steps", "60", "--save", str(tmp_path))
    asked = {"workers": 1, "start": "script", "launcher": WarmLauncher()}
    result = trial(tmp_path, "sabotage.py", part, "all", *saved, **asked)
    assert (tmp_path / "weights-0.pt").exists()
    assert result.state == "crashed"
    assert "measuring stopped" in result.reason
    assert "broken on purpose" in result.reason


def test_a_training_ends_though_gloo_still_has_python_objects_to_drop(tmp_path):
    script = (str(SCRIPTS / "ends_at_once.py"),)
    for code, output in run_ranks(2, "-m", "paceline_agent", *script, timeout_s=60, **orders(tmp_path)):
        assert code == 0, output


def test_when_measuring_stops_on_one_worker_the_others_train_on_with_it(tmp_path):
    saved = ("--steps", "60", "--save", str(tmp_path))
    result = trial(
        tmp_path, "sabotage.py", "record.recorder.Recorder.close_step", "1", *saved, steps=20, warmup=6
    )
    assert (tmp_path / "weights-0.pt").exists()
    assert (tmp_path / "weights-1.pt").exists()
    assert result.reason.startswith("worker 1 of 2: measuring stopped")


def test_without_a_folder_to_write_to_training_goes_on_and_says_so(tmp_path):
    saved = str(tmp_path)
    script = (str(SCRIPTS / "plain_ddp.py"), "--steps", "12", "--save", saved)
    for code, output in run_ranks(2, "-m", "paceline_agent", *script, **orders(tmp_path / "absent")):
        assert code == 0, output
        assert "paceline: measuring stopped" in output
    assert (tmp_path / "weights-1.pt").exists()


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
