"""Accelerate and DeepSpeed start workers as their users start them, with the count of the study; real processes."""

from importlib.util import find_spec

import pytest

from paceline.core.errors import UsageError
from paceline.launch.launchers import launcher_findings, refuse_missing_launcher, refuse_unusable_files
from paceline.launch.start import started
from paceline.plan.config_files import CONFIG
from paceline.records import Study, Workload
from tests.support.desk import SCRIPTS
from tests.support.trial import trial

AGENT = ["-m", "paceline_agent", "train.py", "--lr", "1"]


def test_accelerate_is_told_the_configuration_and_the_count_of_the_study():
    words = started("accelerate", AGENT, workers=4, config="a.yaml", distributed=True, tag="x")
    assert words[:4] == ["-m", "accelerate.commands.launch", "--config_file", "a.yaml"]
    assert words[words.index("--num_processes") + 1] == "4"
    assert "--multi_gpu" not in words  # the configuration says how
    assert words[-5:] == AGENT


def test_deepspeed_gets_its_file_through_the_scripts_own_flag():
    words = started("deepspeed", AGENT, workers=2, config="ds.json", distributed=True, tag="x")
    assert words[words.index("--num_gpus") + 1] == "2"
    assert words[words.index("--module") + 1 :] == [*AGENT[1:], "--deepspeed_config", "ds.json"]


@pytest.mark.skipif(find_spec("accelerate") is None, reason="Accelerate is not installed")
def test_accelerate_launch_starts_as_many_workers_as_asked_whatever_its_file_says(tmp_path):
    config = tmp_path / "a.yaml"
    config.write_text("compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: 7\n")
    before = config.read_bytes()
    found = trial(
        tmp_path, "uses_accelerate.py", start="accelerate", vary=((CONFIG, (str(config),)),), steps=10
    )
    assert (found.state, len(found.workers)) == ("ok", 2), f"{found.reason}\n{found.log_tail}"
    assert {tuple(worker.manifest["strategy"]) for worker in found.workers} == {("ddp",)}
    assert config.read_bytes() == before


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(
    find_spec("deepspeed") is None, reason="DeepSpeed is not installed: pip install --group frameworks"
)
def test_deepspeed_starts_the_stage_that_a_copy_of_its_file_says(tmp_path):
    config = tmp_path / "ds.json"
    config.write_text(
        '{"train_micro_batch_size_per_gpu": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.01}},'
        ' "zero_allow_untested_optimizer": true, "zero_optimization": {"stage": 1}}'
    )
    varied = ((f"{config}:zero_optimization.stage", ("2",)), (CONFIG, (str(config),)))
    found = trial(
        tmp_path, "uses_deepspeed.py", start="deepspeed", vary=varied, steps=10, timeout_s=500.0, hang_s=400.0
    )
    assert (found.state, len(found.workers)) == ("ok", 2), f"{found.reason}\n{found.log_tail}"
    assert {tuple(worker.manifest["strategy"]) for worker in found.workers} == {("deepspeed", "zero2")}


@pytest.mark.parametrize(
    ("content", "said"), [(None, "cannot read a.yaml"), ("a: [1", "a.yaml cannot be read")]
)
def test_a_configuration_that_cannot_be_used_is_refused_before_anything_starts(tmp_path, content, said):
    if content is not None:
        (tmp_path / "a.yaml").write_text(content)
    study = Study(Workload("script", "t.py"), vary=((CONFIG, ("a.yaml",)),), directory=str(tmp_path))
    with pytest.raises(UsageError, match=said):
        refuse_unusable_files(study)


def test_a_launcher_that_is_not_installed_is_named(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(UsageError, match="has no deepspeed to start workers with"):
        refuse_missing_launcher(Study(Workload("script", "t.py", start="deepspeed")), str(python))


def test_a_script_that_uses_accelerate_under_torchrun_is_told_that_its_configuration_does_not_apply():
    name = str(SCRIPTS / "uses_accelerate.py")
    (told,) = launcher_findings(Study(Workload("script", name)))
    assert told.id == "accelerate-not-asked"
    assert launcher_findings(Study(Workload("script", name, start="accelerate"))) == ()
    assert launcher_findings(Study(Workload("script", str(SCRIPTS / "plain_ddp.py")))) == ()
