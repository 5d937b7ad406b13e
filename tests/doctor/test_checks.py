"""The checks of machines that are not here: GPUs, InfiniBand, capped clocks; and of the texts of scripts."""

from dataclasses import replace

import pytest

from paceline.doctor.checks import checkup
from paceline.doctor.machine import Machine
from paceline.doctor.script import script_checks

GPU = Machine(
    "python", torch="2.11.0", nccl=True, devices=("H200",) * 8, gpus=8, infiniband=("mlx5_0",), cores=64,
    machine_cores=64, interfaces=("lo", "ib0"), loopback_reached=True, host="gpu07", host_addresses=("10.0.0.7",),
    governors=("performance",), shm_free_bytes=2**34, free_bytes=2**40, file_system="ext4", busy_ratio=0.01,
)  # fmt: skip


def states(machine):
    return {check.id: check.state for check in checkup(machine) if check.state != "ok"}


def test_a_node_as_it_should_be_has_no_fault():
    assert states(GPU) == {}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"devices": (), "nccl": None}, {"gpus": "void"}),
        ({"devices": ("H200",) * 4, "environment": {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}}, {"gpus": "note"}),
        ({"devices": ("H200",) * 7 + ("A100",)}, {"gpus": "doubt"}),
        ({"nccl": False}, {"nccl": "doubt"}),
        ({"locked_bytes": 65536}, {"locked-memory": "doubt"}),
        ({"clock_ratio": 0.6}, {"clocks": "doubt"}),
        ({"cores": 4}, {"cores": "note"}),
        ({"sync_s": 0.5}, {"disk": "doubt"}),
        ({"file_system": "nfs4"}, {"disk": "note"}),
        ({"host_addresses": None}, {"host-name": "doubt"}),
        ({"host_addresses": ("127.0.1.1",)}, {"host-name": "note"}),
        ({"environment": {"NCCL_SOCKET_IFNAME": "ib"}}, {}),
        ({"environment": {"NCCL_SOCKET_IFNAME": "=ib"}}, {"interface": "void"}),
        ({"environment": {"GLOO_SOCKET_IFNAME": "ib"}}, {"interface": "void"}),
        ({"busy_ratio": None, "governors": (), "shm_free_bytes": None, "loopback_reached": None, "gpus": None},
         dict.fromkeys(("busy", "clocks", "shared-memory", "ports", "gpus"), "unknown")),
    ],
)  # fmt: skip
def test_one_fault_is_one_line(change, expected):
    assert states(replace(GPU, **change)) == expected


def test_every_fault_has_a_cure():
    worst = replace(
        GPU, devices=(), locked_bytes=1, clock_ratio=0.1, sync_s=9.0, host_addresses=None, open_files=64,
        shm_free_bytes=1, busy_ratio=0.9, loopback_reached=False, leftovers=("python 7",),
        environment={"GLOO_SOCKET_IFNAME": "x", "OMP_NUM_THREADS": "0", "NCCL_IB_DISABLE": "1"},
    )  # fmt: skip
    faults = [check for check in checkup(worst) if check.state in ("doubt", "void")]
    assert len(faults) >= 11
    assert [check.id for check in faults if not (check.hint or check.command)] == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("net = nn.DataParallel(net)", {"data-parallel": "doubt"}),
        ("s = DistributedSampler(d)\nfor e in range(3): s.set_epoch(e)", {}),
        ("s = DistributedSampler(d)", {"set-epoch": "doubt"}),
        ("DDP(net); DataLoader(d)", {"sampler": "note"}),
        ("torch.autograd.set_detect_anomaly(True)", {"anomaly": "doubt"}),
        ("print('nn.DataParallel(net)')", {}),
        ("def broken(:", {"script": "void"}),
        ("\0", {"script": "void"}),
    ],
)
def test_a_script_says_by_its_calls(source, expected):
    assert {check.id: check.state for check in script_checks(source, "train.py")} == expected
