"""A study on Slurm from a login node that is not as expected, with stand-ins for Slurm's commands."""

import os
from dataclasses import replace

import pytest

from paceline.cli.measure import bench_of
from paceline.cli.slurm.study import study_on_slurm, why_left
from paceline.core.errors import Interrupted, PacelineError, UsageError
from paceline.launch.slurm.client import submit
from paceline.plan.trials import plan_study
from paceline.records import Allocation, Study, Workload
from paceline.slurm.state import JobState
from paceline.store.paths import StudyFolder

STUDY = Study(Workload("workload", "mnist"), nodes=(1,), workers_per_node=(1,), workers=(1,), threads=1, repeats=1,
              slurm=Allocation(time_s=60.0))  # fmt: skip
ENDED = "JobId={id} JobState=FAILED ExitCode=130:0 RunTime=00:00:45 TimeLimit=00:01:00 Restarts=0"


@pytest.fixture
def login(tmp_path, monkeypatch):
    """Puts a command of these words into PATH, which has nothing else."""
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}/bin")
    monkeypatch.setattr("shutil.which", lambda name: str(tools / name) if (tools / name).exists() else None)

    def put(name, words):
        (tools / name).write_text(f"#!/bin/sh\n{words}\n")
        (tools / name).chmod(0o755)

    return put


def handed_in(folder, study=STUDY):
    bench, plan = bench_of(study, threads=1), plan_study(study)
    study_on_slurm(StudyFolder(folder), study, plan, held=(), bench=bench, retry_failed=False, json=False)


def test_nothing_is_submitted_where_nobody_would_hear_of_the_job(login, tmp_path):
    login("sbatch", f"touch {tmp_path}/submitted; echo 12")
    login("squeue", "exit 0")
    with pytest.raises(UsageError, match="1 run to go, and scontrol is not in PATH here"):
        handed_in(tmp_path / "s")
    assert not (tmp_path / "submitted").exists()


def test_a_script_that_is_not_there_does_not_wait_in_the_queue(login, tmp_path):
    login("sbatch", f"touch {tmp_path}/submitted; echo 12")
    login("squeue", "exit 0")
    login("scontrol", "exit 1")
    study = replace(STUDY, workload=Workload("script", "nosuch.py"), directory=str(tmp_path))
    with pytest.raises(UsageError, match=r"there is no script .*nosuch"):
        handed_in(tmp_path / "s", study)
    assert not (tmp_path / "submitted").exists()


def test_a_job_is_known_whatever_the_site_prints_and_what_it_says_is_passed_on(login, tmp_path):
    login("sbatch", "echo Welcome; echo '12;alpha'; echo 'sbatch: warning: low priority' >&2; echo Bye")
    submitted = submit(tmp_path / "job.sbatch")
    assert submitted.job == "12"
    assert submitted.said == "warning: low priority"


def test_an_sbatch_that_names_no_job_is_not_believed(login, tmp_path):
    login("sbatch", "echo Thank you")
    with pytest.raises(PacelineError, match="named no job: Thank you") as ended:
        submit(tmp_path / "job.sbatch")
    assert "squeue --me" in ended.value.hint


def test_after_a_time_limit_a_longer_one_is_proposed(login, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("paceline.run.slurm._SURE_S", 0.0)
    login("sbatch", "echo 12")
    login("squeue", "exit 0")
    login("scontrol", f"echo '{ENDED.format(id=12)}'")
    with pytest.raises(Interrupted, match="came near its time limit of") as ended:
        handed_in(tmp_path / "s")
    assert ended.value.hint.endswith("submits the rest; where one run does not fit, add --time 2min")


def test_why_trials_were_left_is_read_from_the_log_of_the_job(tmp_path):
    folder = StudyFolder(tmp_path)
    folder.slurm.mkdir()
    said = "stopped before trial n1-w1-nccl-1, which is left out: no NCCL; 2 trials left out"
    (folder.slurm / "job-12.log").write_text(f"trial n1-w1-1\n{said}\n")
    assert why_left(folder, JobState("12", "COMPLETED")) == said
