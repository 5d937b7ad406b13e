"""Trainings that others' libraries drive: their waits are found too, and their weights stay what they were.

Real processes over gloo; sleep stands for computation. Transformers, TRL and DeepSpeed are the group `frameworks`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.support.trial import assert_agent_changes_no_weight, warm_parts

LATE_S = 0.04
LIBRARY = {
    "accelerate": "accelerate",
    "accelerate_split": "accelerate",
    "accelerate_dispatch": "accelerate",
    "lightning": "lightning",
    "fabric": "lightning",
    "hf_trainer": "transformers",
    "trl_sft": "trl",
    "deepspeed_1": "deepspeed",
    "deepspeed_2": "deepspeed",
    "deepspeed_3": "deepspeed",
}
QUICK = ("accelerate_dispatch", "fabric", "hf_trainer", "deepspeed_2")
KINDS = [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.slow) for kind in LIBRARY]
BUILD_S = 400


@pytest.fixture(scope="module")
def deepspeed_operator():
    """DeepSpeed compiles an operator before its first step on a machine, and keeps it."""
    if shutil.which("g++") is None:
        pytest.skip("DeepSpeed on CPU needs a C++ compiler")
    code = "from deepspeed.comm.torch import build_shm_op; build_shm_op()"
    built = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=BUILD_S)
    assert built.returncode == 0, built.stderr


@pytest.fixture
def installed(request, kind):
    """The library of this kind, ready to run."""
    if find_spec(LIBRARY[kind]) is None:
        pytest.skip(f"{LIBRARY[kind]} is not installed: pip install --group frameworks")
    if LIBRARY[kind] == "deepspeed":
        request.getfixturevalue("deepspeed_operator")


@pytest.mark.alone
@pytest.mark.timeout(BUILD_S + 200)
@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("kind", KINDS)
def test_a_late_worker_is_waited_for_and_named_and_without_one_nobody_is(tmp_path, kind):
    quiet = warm_parts(tmp_path / "quiet", "frameworks.py", kind)
    late = warm_parts(tmp_path / "late", "frameworks.py", kind, "--late", str(LATE_S))
    assert late.unseen == quiet.unseen == ()
    assert late.straggle_s - quiet.straggle_s == pytest.approx(LATE_S, rel=0.1)
    assert late.wire_s - quiet.wire_s == pytest.approx(0.0, abs=0.1 * LATE_S)
    assert (quiet.slowest_worker, late.slowest_worker) == (None, 1)


@pytest.mark.timeout(BUILD_S + 200)
@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_bit_identical_with_and_without_the_agent(tmp_path, kind):
    assert_agent_changes_no_weight(tmp_path, "frameworks.py", kind)
