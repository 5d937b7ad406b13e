"""How a network is spread over workers is named, whichever library does it: real processes over gloo."""

from __future__ import annotations

import pytest

from tests.support.trial import trial
from tests.support.warm import WarmLauncher

NAMES = {
    "ddp": ["ddp"],
    "ddp_static": ["ddp"],
    "ddp_checkpointing": ["ddp"],
    "ddp_python_reducer": ["ddp"],
    "ddp_compiled": ["ddp"],
    "replicate": ["ddp"],
    "zero1": ["zero1"],
    "fsdp2": ["fsdp2"],
    "hsdp": ["hsdp"],
    "fsdp2_tp": ["fsdp2", "tp"],
    "fsdp1": ["fsdp1"],
    "tp": ["tp"],
    "sp": ["tp", "sp"],
    "pp_gpipe": ["pp"],
    "pp_1f1b": ["pp"],
    "hand_flat": ["hand-written"],
    "hand_overlapped": ["hand-written"],
    "send_recv": ["hand-written"],
    "functional": ["hand-written"],
    "gathered": ["hand-written"],
    "separate": ["none"],
    "horovod": ["horovod"],
    "accelerate": ["ddp"],
}
QUICK = ("ddp", "fsdp2", "sp", "pp_gpipe", "hand_flat", "separate")
SPREAD = ("tp", "sp", "pp_gpipe", "pp_1f1b", "fsdp2_tp")  # over which no batch is


def manifests(folder, kind, *, workers=2, steps=6):
    told = {"workers": workers, "steps": steps, "warmup": 3, "launcher": WarmLauncher()}
    found = trial(folder, "strategies.py", kind, **told)
    assert found.state == "ok", f"{found.reason}\n{found.log_tail}"
    assert not any(worker.manifest["problems"] for worker in found.workers)
    return found


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.slow) for kind in NAMES]
)
def test_a_strategy_has_its_name_and_only_what_is_spread_over_workers_is_one_replica(tmp_path, kind):
    workers = 4 if kind in ("hsdp", "fsdp2_tp") else 2
    for worker in manifests(tmp_path, kind, workers=workers).workers:
        assert worker.manifest["strategy"] == NAMES[kind]
        pair = [worker.rank // 2 * 2, worker.rank // 2 * 2 + 1]
        assert worker.manifest["replica"] == (pair if kind in SPREAD else None)
        assert worker.manifest["strategy_asked"] == []


def test_what_accelerate_was_configured_for_is_noted(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    for worker in manifests(tmp_path, "ddp").workers:
        assert worker.manifest["strategy_asked"] == ["fsdp"]
        assert worker.manifest["strategy"] == ["ddp"]
