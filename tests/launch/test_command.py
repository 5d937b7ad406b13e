"""The command of a trial, as data."""

import json
from dataclasses import replace

import pytest

from paceline.core.errors import UsageError
from paceline.launch.command import Rendezvous, command_line, on_node, threads_per_worker, trial_command
from paceline.launch.interpreter import interpreter, start_of
from paceline.plan.trials import plan_study
from paceline.records import Study, Workload

STUDY = Study(Workload("script", "my train.py", ("--x", "$(rm -rf ~)")), workers=(2,), directory="/home/me")


def command(study, environment=None, rendezvous=None):
    return trial_command(
        study,
        plan_study(study).trials[0],
        trial_dir="/s/trials/w2-1",
        tag="abc:w2-1",
        python="/py",
        threads=3,
        environment=environment or {},
        rendezvous=rendezvous,
    )


def test_torchrun_starts_the_agent_and_the_agent_the_script():
    assert command(STUDY).argv == (
        *("/py", "-m", "torch.distributed.run", "--nnodes", "1", "--nproc-per-node", "2"),
        *("--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--max-restarts", "0"),
        *("-m", "paceline_agent", "/home/me/my train.py", "--x", "$(rm -rf ~)"),
    )


def test_every_node_starts_the_same_command_and_they_meet():
    study = replace(STUDY, nodes=(2,), workers_per_node=(3,))
    assert command(study, rendezvous=Rendezvous("10.0.0.1:2900", "abc")).argv[2:15] == (
        *("torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "3", "--rdzv-backend", "c10d"),
        *("--rdzv-endpoint", "10.0.0.1:2900", "--rdzv-id", "abc", "--max-restarts", "0"),
    )
    with pytest.raises(UsageError, match="needs 2 nodes, and only this one is here"):
        command(study)


def test_a_node_adds_its_own_address_and_the_interface_unless_the_user_chose_one():
    study = replace(STUDY, nodes=(2,), workers_per_node=(1,))
    same = command(study, rendezvous=Rendezvous("10.0.0.1:2900", "abc"))
    mine = on_node(
        same, address="10.0.0.2", interface="eth1", holds=False, environment={"NCCL_SOCKET_IFNAME": "ib0"}
    )
    assert mine.argv[:7] == (*same.argv[:3], "--local-addr", "10.0.0.2", "--rdzv-conf", "is_host=0")
    assert mine.argv[7:] == same.argv[3:]
    assert mine.environment["GLOO_SOCKET_IFNAME"] == "eth1"
    assert "NCCL_SOCKET_IFNAME" not in mine.environment


def test_a_script_that_starts_its_own_workers_is_started_alone():
    own = replace(STUDY, workload=replace(STUDY.workload, start="script"))
    assert command(own).argv[:4] == ("/py", "-m", "paceline_agent", "/home/me/my train.py")


def test_a_script_that_starts_its_own_workers_is_refused_on_several_nodes():
    own = replace(STUDY, workload=replace(STUDY.workload, start="script"), nodes=(2,), workers_per_node=(1,))
    with pytest.raises(UsageError, match="on one node only"):
        command(own, rendezvous=Rendezvous("h:1", "x"))


def test_modules_and_workloads_are_modules():
    assert command(Study(Workload("module", "a.b"), workers=(2,))).argv[-4:] == (
        "-m",
        "paceline_agent",
        "-m",
        "a.b",
    )
    own = command(Study(Workload("workload", "mnist"), workers=(2,)), {"PYTHONPATH": "/mine"})
    assert own.argv[-1] == "paceline_workloads.mnist"
    assert own.environment["PYTHONPATH"] == "/s/trials/w2-1/agent:/mine"


def test_the_agent_is_told_what_to_do():
    asked = json.loads(command(replace(STUDY, backends=("gloo",), steps=20)).environment["PACELINE_TRIAL"])
    assert asked == {
        "dir": "/s/trials/w2-1", "steps": 20, "warmup": 10, "profile": 5, "end": True, "hang_s": 60.0,
        "workers": 2, "flops": True, "backend": "gloo"
    }  # fmt: skip


def test_devices_are_left_to_the_user():
    assert set(command(STUDY).environment) == {
        "PACELINE_TRIAL",
        "PACELINE_TAG",
        "PYTHONPATH",
        "OMP_NUM_THREADS",
    }


def test_the_printed_command_is_quoted():
    assert command_line(command(STUDY)).endswith("'/home/me/my train.py' --x '$(rm -rf ~)'")


@pytest.mark.parametrize(
    ("asked", "environment", "cores", "threads"),
    [
        (None, {}, 8, 2),
        (None, {}, 2, 1),
        (5, {"OMP_NUM_THREADS": "3"}, 8, 5),
        (None, {"OMP_NUM_THREADS": "3"}, 8, 3),
    ],
)
def test_threads_are_the_same_at_every_count(asked, environment, cores, threads):
    study = replace(STUDY, workers=(1, 4), threads=asked)
    assert threads_per_worker(study, environment=environment, cores=cores) == threads


def test_the_cores_of_a_node_are_shared_by_its_own_workers():
    study = replace(STUDY, workers=(2, 8), nodes=(1, 4), workers_per_node=(2,))
    assert threads_per_worker(study, environment={}, cores=8) == 4


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("import torch.multiprocessing as mp\nd.init_process_group()\nmp.spawn(f, nprocs=2)", "script"),
        ("from torch.multiprocessing import spawn\ninit_process_group('gloo')\nspawn(f)", "script"),
        ("import torch\nd.init_process_group()\ntorch.multiprocessing.spawn(f)", "script"),
        ("from multiprocessing import Process\nd.init_process_group()\nProcess(target=f)", "script"),
        (
            "import multiprocessing as m\nc = m.get_context('spawn')\nd.init_process_group()\nc.Process()",
            "script",
        ),
        ("import torch.multiprocessing as mp\nmp.spawn(f)", "torchrun"),
        ("d.init_process_group()\nx.spawn()", "torchrun"),
        ("# mp.spawn(f)\ninit_process_group()", "torchrun"),
        ("this is not python", "torchrun"),
    ],
)
def test_who_starts_the_workers_is_read_from_the_script(tmp_path, text, start):
    (tmp_path / "t.py").write_text(text)
    assert start_of(tmp_path / "t.py") == start


def test_a_desk_without_torch_says_how_to_name_another_python(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="has no torch") as refusal:
        interpreter(None)
    assert "--python" in refusal.value.hint


def test_an_interpreter_that_does_not_exist_is_refused():
    with pytest.raises(UsageError, match="no Python at 'nowhere'"):
        interpreter("nowhere")
