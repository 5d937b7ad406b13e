"""Following a job from the login node, with a Slurm that only speaks: what is said, asked again, and believed."""

from dataclasses import replace

import pytest

from paceline.launch.slurm import launcher as launch
from paceline.launch.slurm.client import SlurmSilent, job_state
from paceline.plan.trials import plan_study
from paceline.records import Allocation, Study, Workload
from paceline.run import slurm
from paceline.run.slurm import attached, follow, job_name, write_script
from paceline.run.study import Silent
from paceline.slurm.state import JobState
from paceline.store.paths import StudyFolder
from paceline.store.slurm_file import add_job, newest_job
from paceline.store.trial_files import commit, read_results
from tests.run.test_run import FakeClock, result

STUDY = Study(
    Workload("module", "train"),
    nodes=(1, 2),
    workers_per_node=(1,),
    workers=(1, 2),
    repeats=1,
    slurm=Allocation(),
)
PENDING, RUNNING, COMPLETED = (JobState("7", state) for state in ("PENDING", "RUNNING", "COMPLETED"))


class Heard(Silent):
    """Remembers what a listener is told."""

    def __init__(self):
        object.__setattr__(self, "told", [])

    def started(self, trial, progress):
        self.told.append(("started", trial.id))

    def skipped(self, point, why):
        raise AssertionError(f"{point.id} was left out: {why}")

    def ended(self, result, progress):
        self.told.append(("ended", result.trial.id))


def followed(tmp_path, monkeypatch, answers, happens=lambda asked: None):
    """Follow a job whose state is asked for again and again; the last answer stays."""
    asked, said, heard = [], [], Heard()

    def answer(job_id):
        asked.append(job_id)
        happens(len(asked))
        now = answers[min(len(asked), len(answers)) - 1]
        if isinstance(now, Exception):
            raise now
        return now

    monkeypatch.setattr(slurm, "job_state", answer)
    folder = StudyFolder(tmp_path)
    folder.trials.mkdir(parents=True, exist_ok=True)
    end, _ = follow(folder, STUDY, plan_study(STUDY), "7", clock=FakeClock(), listener=heard, say=said.append)
    return end, said, heard.told


def test_each_state_is_said_once_and_the_end_is_returned(tmp_path, monkeypatch):
    end, said, _ = followed(tmp_path, monkeypatch, [PENDING, PENDING, RUNNING, RUNNING, COMPLETED])
    assert end == COMPLETED
    assert said == ["job 7 waits (PENDING)", "job 7 is RUNNING", "job 7 completed"]


def test_a_controller_that_does_not_answer_is_asked_again(tmp_path, monkeypatch):
    silent = SlurmSilent("scontrol: timed out")
    end, said, _ = followed(tmp_path, monkeypatch, [RUNNING, silent, silent, RUNNING, COMPLETED])
    assert end == COMPLETED
    assert said[1] == "Slurm does not answer (scontrol: timed out); still asking"
    assert said[2] == "job 7 is RUNNING"


def test_a_job_that_only_looks_ended_is_followed_on(tmp_path, monkeypatch):
    failed, again = JobState("7", "NODE_FAIL"), JobState("7", "PENDING", restarts=1)
    end, said, _ = followed(tmp_path, monkeypatch, [RUNNING, failed, again, RUNNING, COMPLETED])
    assert end == COMPLETED
    assert "job 7 lost a node" in said


def test_trials_are_told_as_their_folders_appear(tmp_path, monkeypatch):
    folder, first, second = StudyFolder(tmp_path), *plan_study(STUDY).trials

    def happens(asked):
        if asked == 2:
            folder.trial(first.id).mkdir(parents=True)
        if asked == 3:
            commit(folder, result(first), started="1")
        if asked == 4:  # begun and ended between two looks
            folder.trial(second.id).mkdir()
            commit(folder, result(second), started="2")

    _, _, told = followed(tmp_path, monkeypatch, [PENDING, RUNNING, RUNNING, RUNNING, COMPLETED], happens)
    each = [(what, trial.id) for trial in (first, second) for what in ("started", "ended")]
    assert told == each


def test_what_was_there_before_is_not_told_again(tmp_path, monkeypatch):
    folder, (first, _) = StudyFolder(tmp_path), plan_study(STUDY).trials
    folder.trial(first.id).mkdir(parents=True)
    commit(folder, result(first), started="1")
    assert followed(tmp_path, monkeypatch, [COMPLETED])[2] == []
    assert len(read_results(folder)) == 1


def test_the_newest_job_is_remembered(tmp_path):
    folder = StudyFolder(tmp_path)
    assert newest_job(folder) is None
    add_job(folder, "7", date="a")
    add_job(folder, "9", date="b")
    assert newest_job(folder) == "9"


@pytest.mark.parametrize(
    ("held", "named", "found"),
    [
        (None, None, None),
        (None, "8", "8"),  # submitted by hand, or its number was not written down
        ("RUNNING", None, "7"),
        ("COMPLETED", "8", "8"),  # the old one is over, a new one was submitted by hand
        ("COMPLETED", None, "7"),
    ],
)
def test_a_job_is_found_by_its_number_else_by_its_name(held, named, found, tmp_path, monkeypatch):
    folder = StudyFolder(tmp_path)
    name = job_name(folder, STUDY)
    if held is not None:
        add_job(folder, "7", date="then")
    monkeypatch.setattr(
        slurm, "job_state", lambda job: JobState(job, held if job == "7" else "PENDING", name=name)
    )
    monkeypatch.setattr(slurm, "job_named", lambda asked: named if asked == name else None)
    job = attached(folder, STUDY)
    assert (None if job is None else job.id) == found


def test_a_number_that_now_belongs_to_somebody_else_is_not_ours(tmp_path, monkeypatch):
    folder = StudyFolder(tmp_path)
    add_job(folder, "7", date="then")
    monkeypatch.setattr(slurm, "job_state", lambda job: JobState(job, "RUNNING", name="another"))
    monkeypatch.setattr(slurm, "job_named", lambda name: None)
    assert attached(folder, STUDY) == JobState("7", "GONE")


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({}, "--cpus-per-task=1"),
        ({"workers_per_node": (1, 4), "threads": 2}, "--cpus-per-task=8"),
        ({"slurm": Allocation(exclusive=True), "threads": 3}, "--cpus-per-task=3"),
        ({"slurm": Allocation(exclusive=True)}, None),
    ],
)
def test_cpus_are_asked_for_as_workers_and_their_threads_need_them(changes, asked, tmp_path):
    study = replace(STUDY, **changes)
    text = write_script(
        StudyFolder(tmp_path), study, plan := plan_study(study), plan.trials, python="/py"
    ).read_text()
    lines = [line.split()[1] for line in text.splitlines() if "cpus-per-task" in line]
    assert lines == ([asked] if asked else [])
    assert "--nodes=2" in text


def test_without_slurm_a_job_is_not_believed_to_be_over(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SlurmSilent, match="scontrol is not in PATH"):
        job_state("7")


@pytest.mark.parametrize(
    ("states", "says", "waits"),
    [
        (["IDLE"], None, 0),
        (["MIXED*", "MIXED*", "MIXED"], None, 2),  # silent for a while
        (["DOWN*"], "cannot start: node 1 (n2) is DOWN*", 0),
    ],
)
def test_a_silent_node_is_waited_for_and_a_dead_one_is_not(states, says, waits, monkeypatch):
    waited, told = [], iter(states)

    def node_lines(nodes):
        return {"n1": "NodeName=n1 State=MIXED", "n2": f"NodeName=n2 State={next(told)}"}

    monkeypatch.setattr(launch, "node_lines", node_lines)
    monkeypatch.setattr(launch.time, "sleep", waited.append)
    two = plan_study(STUDY).trials[1]
    assert launch.SlurmLauncher("7", ("n1", "n2"), "10.0.0.1").refusal(two) == says
    assert len(waited) == waits


def test_a_trial_that_needs_more_nodes_than_the_allocation_has_is_refused():
    two = plan_study(STUDY).trials[1]
    refused = launch.SlurmLauncher("7", ("n1",), "10.0.0.1").refusal(two)
    assert refused == "needs 2 nodes; job 7 has 1"
