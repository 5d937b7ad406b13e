"""A study as a job array: when, how it is written, who takes which trial, and what an array says of itself."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from paceline.cli.slurm import task as slurm_task
from paceline.cli.slurm.study import why_left
from paceline.core.errors import StudyError, StudyInUse, UsageError
from paceline.launch.replay import ReplayLauncher
from paceline.launch.slurm import client as slurm_client
from paceline.launch.slurm.client import SlurmSilent, job_state
from paceline.launch.slurm.nodes import task_here
from paceline.plan.trials import plan_study
from paceline.records import Allocation, Goal, Study, Workload
from paceline.run import share
from paceline.run.share import Share, holder_of, is_share_left, run_share
from paceline.run.study import Silent
from paceline.run.trial import Bench
from paceline.slurm.array import array_of, resource_warnings, submission_text, time_warning
from paceline.slurm.script import Array, Job, checked_allocation, sbatch_script
from paceline.slurm.state import JobState, ended_text, job_from_sacct, job_from_scontrol, log_name, phase
from paceline.store.claims import Holder, claim, clear_claims, holders, tasks_with
from paceline.store.lock import locked, shared
from paceline.store.paths import StudyFolder
from paceline.store.trial_files import commit, read_results
from tests.run.test_run import FakeClock, result

GOLDEN = Path(__file__).parents[1] / "golden" / "array.sbatch"
TRAININGS = Study(
    Workload("script", "train.py"),
    nodes=(2,),
    workers_per_node=(1,),
    workers=(2,),
    repeats=4,
    goal=Goal(target=0.9, seeds=4),
    slurm=Allocation(),
)
TODO = plan_study(TRAININGS).trials


# ------------------------------------------------------------------ one allocation or an array


def array(todo=TODO, *, asked=None, **changes):
    return array_of(replace(TRAININGS, slurm=Allocation(array=asked), **changes), todo)


def test_trainings_of_one_size_are_an_array_and_timed_steps_are_one_allocation():
    assert array() == Array(4)
    assert array(goal=None) is None


def test_what_cannot_be_shared_out_evenly_is_one_allocation():
    sizes = replace(TRAININGS, nodes=(1, 2), workers=(1, 2))
    assert array(plan_study(sizes).trials) is None
    assert array(TODO[:1]) is None
    assert array(budget_device_s=100.0) is None


def test_the_user_has_the_last_word():
    assert array(asked=0) is None
    assert array(asked=3) == Array(4, 3)
    assert array(asked=3, goal=None) == Array(4, 3)
    assert array(asked=9) == Array(4)  # a limit that never holds anything back


def test_an_array_that_cannot_be_is_refused_with_the_way_out():
    sizes = replace(TRAININGS, nodes=(1, 2, 4), workers=(1, 2, 4))
    with pytest.raises(UsageError, match=r"equally large, and settings need 1, 2 and 4 nodes"):
        array(plan_study(sizes).trials, asked=2)
    with pytest.raises(UsageError, match="no --budget can be kept"):
        array(asked=2, budget_device_s=100.0)


def test_the_plan_says_how_it_is_handed_in():
    asked = replace(TRAININGS, slurm=Allocation(array=2))
    expected_s = [900.0] * len(TODO)
    array_said = submission_text(asked, TODO, expected_s)
    assert array_said.startswith("Slurm: a job array of 4 tasks of 2 nodes, 2 at once")
    one_said = submission_text(replace(asked, slurm=Allocation(array=0)), TODO, expected_s)
    assert one_said.startswith("Slurm: one job of 2 nodes")
    assert array_said.endswith("About 2.00 node-hours.")  # four runs of a quarter of an hour on two nodes
    assert one_said.endswith("About 2.00 node-hours.")


@pytest.mark.parametrize(
    ("slurm", "cpus", "said"),
    [
        (Allocation(), 2, ["memory"]),
        (Allocation(gres="gpu:2"), 2, ["memory", "Each GPU gets 1 core,"]),
        (Allocation(gres="gpu:2"), 16, ["memory"]),
        (Allocation(gres="gpu:2", options=("mem=0", "cpus-per-gpu=8")), 2, []),
        (Allocation(gres="gpu:2", exclusive=True), None, []),
    ],
)
def test_memory_and_cores_that_nobody_asked_for_are_said(slurm, cpus, said):
    found = resource_warnings(replace(TRAININGS, workers=(2,), workers_per_node=None, slurm=slurm), cpus)
    assert len(found) == len(said)
    assert all(words in text for words, text in zip(said, found, strict=True))


@pytest.mark.parametrize(
    ("array", "each_s", "says"),
    [
        (None, 1000.0, None),  # every task has the time for itself
        (
            0,
            1000.0,
            "That may be more than --time 60 min 0 s, less 60.0 s to end in order: the same command then",
        ),
        (0, 800.0, None),
        (None, 3550.0, "One run may need 59 min 10 s, more than --time 60 min 0 s"),
    ],
)
def test_a_time_that_trials_do_not_fit_into_is_said_before_it_is_asked_for(array, each_s, says):
    asked = replace(TRAININGS, slurm=Allocation(array=array, time_s=3600.0))
    said = time_warning(asked, TODO, [each_s] * len(TODO))
    assert said == says if says is None else said.startswith(says)
    assert time_warning(replace(asked, slurm=Allocation()), TODO, [1e9] * len(TODO)) is None


def test_the_script_of_an_array_is_the_golden_one(tmp_path):
    job = Job("paceline-train-3fa2c1", "/scratch/s", "/opt/py", 2, 4, "/scratch/s/slurm", Array(24, 4))
    made = tmp_path / GOLDEN.name
    made.write_text(sbatch_script(Allocation(partition="gpu", time_s=5400.0, gres="gpu:4"), job))
    assert made.read_text() == GOLDEN.read_text(), f"if this is right: cp {made} {GOLDEN}"


def test_an_array_of_the_users_own_making_is_refused():
    with pytest.raises(UsageError, match="decides --array itself"):
        checked_allocation(Allocation(options=("array=1-4",)))


# ------------------------------------------------------------------ who takes which trial


def holder(task, restarts=0):
    return Holder(f"12_{task}", restarts, "paceline-t")


def test_a_task_claims_in_the_name_that_slurm_gave_it():
    given = {"SLURM_JOB_NAME": "paceline-t", "SLURM_RESTART_COUNT": "2"}
    assert holder_of("12_1", given) == holder(1, restarts=2)
    assert holder_of("12_1", {"SLURM_JOB_NAME": "paceline-t"}) == holder(1)


def test_of_many_who_claim_at_once_exactly_one_has_each_trial(tmp_path):
    folder, trials = StudyFolder(tmp_path), [f"w1-b32.5-{number}" for number in range(20)]
    tries = [(trial, task) for trial in trials for task in range(8)]
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda pair: claim(folder, pair[0], 1, holder(pair[1])), tries))
    assert sum(won) == len(trials)
    held = {trial: holder(task) for (trial, task), mine in zip(tries, won, strict=True) if mine}
    assert {trial: who for trial, (_, who) in holders(folder).items()} == held
    assert not [path for path in folder.claims.iterdir() if path.name.startswith(".")]


def test_the_newest_claim_holds_and_the_lost_ones_number_is_taken_once(tmp_path):
    folder = StudyFolder(tmp_path)
    assert [claim(folder, "t-1", n, holder(n)) for n in (1, 2)] == [True, True]
    assert not claim(folder, "t-1", 2, holder(3))
    assert holders(folder) == {"t-1": (2, holder(2))}
    clear_claims(folder)
    assert holders(folder) == {}


def test_an_answer_of_nfs_that_was_lost_does_not_lose_the_claim(tmp_path, monkeypatch):
    folder, link = StudyFolder(tmp_path), os.link

    def lost(beside, name):
        link(beside, name)
        raise FileExistsError(errno.EEXIST, "File exists")

    monkeypatch.setattr(os, "link", lost)
    assert claim(folder, "t-1", 1, holder(1))


def test_a_file_system_without_links_is_said_with_the_way_out(tmp_path, monkeypatch):
    def unable(beside, name):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", unable)
    with pytest.raises(StudyError, match="cannot claim a run") as refused:
        claim(StudyFolder(tmp_path), "t-1", 1, holder(1))
    assert "--array 0" in refused.value.hint


def test_several_share_a_study_and_one_who_wants_it_alone_is_refused(tmp_path):
    folder = StudyFolder(tmp_path)
    with shared(folder), shared(folder), pytest.raises(StudyInUse), locked(folder):
        raise AssertionError("held by two")
    with locked(folder), pytest.raises(StudyInUse), shared(folder):
        raise AssertionError("held alone")


# ------------------------------------------------------------------ the share of a task


class Sharing:
    """Tasks of an array that Slurm describes as told; trials end at once."""

    def __init__(self, root, monkeypatch):
        self.folder = StudyFolder(root)
        self.states = {task: JobState("12", "RUNNING", name="paceline-t", task=str(task)) for task in (1, 2)}
        self.ran, self.clock = [], FakeClock()
        self.before_trial = lambda trial: None
        monkeypatch.setattr(share, "job_state", self.job_state)
        monkeypatch.setattr(share, "run_trial", self.run_trial)

    def job_state(self, job_id):
        if isinstance(self.states, Exception):
            raise self.states
        array, _, task = job_id.partition("_")
        return (
            self.states[int(task)] if task else JobState(array, "RUNNING", tasks=tuple(self.states.values()))
        )

    def run_trial(self, folder, study, trial, *, bench, stepped):
        self.before_trial(trial)
        self.ran.append(trial.id)
        (folder.trial(trial.id)).mkdir(parents=True, exist_ok=True)
        done = result(trial, wall_s=100.0)
        commit(folder, done, started=str(len(self.ran)))
        return done

    def task(self, number, restarts=0, refusal=None):
        self.folder.trials.mkdir(exist_ok=True)
        bench = Bench(ReplayLauncher(self.folder.root), "py", 1, Path("a"), None, self.clock, refusal=refusal)
        own = replace(holder(number), restarts=restarts)
        done = run_share(
            self.folder, TRAININGS, plan_study(TRAININGS), own=own, bench=bench, listener=Silent()
        )
        assert {one.trial.id for one in done.results} <= {one.trial.id for one in read_results(self.folder)}
        return replace(done, results=())  # how a task ended is what these tests compare


@pytest.fixture
def sharing(tmp_path, monkeypatch):
    return Sharing(tmp_path, monkeypatch)


def test_two_tasks_at_once_run_every_trial_once(sharing):
    """The second begins while the first is in its first trial."""

    def before(trial):
        sharing.before_trial = lambda trial: None
        sharing.other = sharing.task(2)

    sharing.before_trial = before
    first = sharing.task(1)
    assert sorted(sharing.ran) == sorted(trial.id for trial in TODO)
    assert (first, sharing.other) == (Share(1, 0), Share(3, 1))


def test_what_a_lost_task_held_is_taken_by_another(sharing):
    claim(sharing.folder, TODO[0].id, 1, holder(2))
    sharing.states[2] = replace(sharing.states[2], state="CANCELLED")
    assert sharing.task(1) == Share(4, 0)
    assert holders(sharing.folder)[TODO[0].id] == (2, holder(1))


def test_a_task_that_was_put_back_takes_up_what_it_held(sharing):
    claim(sharing.folder, TODO[0].id, 1, holder(1))
    sharing.states[1] = replace(sharing.states[1], restarts=1)
    assert sharing.task(1, restarts=1) == Share(4, 0)


def test_a_trial_that_two_tasks_were_lost_with_is_left_and_said(sharing):
    """A training longer than its time would otherwise use up every task of the array."""
    for number, task in ((1, 2), (2, 3)):
        claim(sharing.folder, TODO[0].id, number, holder(task))
    sharing.states[2] = replace(sharing.states[2], state="TIMEOUT")
    of_it = sharing.task(1)
    assert (of_it.ran, of_it.left) == (3, 1)
    assert of_it.why == (
        f"run {TODO[0].id} was begun by tasks 12_2 and 12_3, which were lost: is --time long enough for it?"
    )


def test_a_task_that_is_preempted_again_and_again_is_one_task(sharing):
    for restarts in range(5):
        claim(sharing.folder, TODO[0].id, restarts + 1, holder(1, restarts))
    assert tasks_with(sharing.folder, TODO[0].id) == ["12_1"]
    sharing.states[1] = replace(sharing.states[1], restarts=5)
    assert sharing.task(1, restarts=5) == Share(4, 0)


def test_a_task_that_is_about_to_end_is_waited_for(sharing):
    """What it holds is complete in a moment, or lost: whoever left now might be the last one."""
    claim(sharing.folder, TODO[0].id, 1, holder(2))
    sharing.states[2] = replace(sharing.states[2], state="COMPLETING")

    def pause(seconds):
        sharing.states[2] = replace(sharing.states[2], state="CANCELLED")

    sharing.clock.pause = pause
    assert is_share_left(sharing.folder, TODO[:1])
    assert sharing.task(1) == Share(4, 0)


def test_a_task_that_never_comes_to_its_end_is_not_waited_for_for_ever(sharing):
    claim(sharing.folder, TODO[0].id, 1, holder(2))
    sharing.states[2] = replace(sharing.states[2], state="COMPLETING")
    assert sharing.task(1) == Share(3, 1)
    assert sharing.clock.now == 180.0


@pytest.mark.parametrize("state", ["RUNNING", "SUSPENDED"])
def test_what_a_living_task_holds_is_left_to_it(sharing, state):
    claim(sharing.folder, TODO[0].id, 1, holder(2))
    sharing.states[2] = replace(sharing.states[2], state=state)
    assert sharing.task(1) == Share(3, 1)
    assert TODO[0].id not in sharing.ran


def test_while_slurm_does_not_answer_nobody_is_lost(sharing):
    claim(sharing.folder, TODO[0].id, 1, holder(2))
    sharing.states = SlurmSilent("timed out")
    assert not is_share_left(sharing.folder, TODO[:1])
    assert is_share_left(sharing.folder, TODO)


def test_a_trial_whose_end_is_seen_late_is_not_run_again(sharing, monkeypatch):
    """Its holder ended and is gone; this task read the folder before the commit mark could be seen."""
    sharing.run_trial(sharing.folder, TRAININGS, TODO[0], bench=None, stepped=None)
    claim(sharing.folder, TODO[0].id, 1, holder(2))
    sharing.states[2] = replace(sharing.states[2], state="COMPLETED")
    seen = iter([()])
    monkeypatch.setattr(
        share, "read_results", lambda folder, known: next(seen, None) or read_results(folder, known)
    )
    assert sharing.task(1) == Share(3, 0)
    assert sharing.ran.count(TODO[0].id) == 1


def test_a_task_begins_another_trial_only_if_its_time_suffices(sharing):
    sharing.states[1] = replace(sharing.states[1], limit_s=600.0, run_s=490.0)
    share_of_it = sharing.task(1)
    assert (share_of_it.ran, share_of_it.left) == (1, 3)
    assert "would take about 1 min 40 s, and 50.0 s of this task's time are left" in share_of_it.why


def test_a_trial_that_cannot_start_is_not_claimed(sharing):
    share_of_it = sharing.task(1, refusal=lambda trial: "needs 2 nodes; job 12_1 has 1")
    assert share_of_it == Share(0, 4, f"run {TODO[0].id} needs 2 nodes; job 12_1 has 1")
    assert holders(sharing.folder) == {}


@pytest.mark.parametrize(("of_it", "ends"), [(Share(1, 0), True), (Share(2, 1), False), (Share(0, 0), False)])
def test_who_runs_the_last_trial_ends_the_study_and_empties_the_queue(of_it, ends, tmp_path, monkeypatch):
    did = []
    monkeypatch.setattr(slurm_task, "print_plan", lambda *args, **named: None)
    monkeypatch.setattr(slurm_task, "run_share", lambda *args, **named: of_it)
    monkeypatch.setattr(slurm_task, "cancel_waiting", lambda job: did.append(f"scancel {job}"))
    monkeypatch.setattr(slurm_task, "finish", lambda *args, **named: did.append("analysed"))
    monkeypatch.setattr(slurm_task, "refuse_no_answer", lambda folder, analysis: None)
    plan = plan_study(TRAININGS)
    slurm_task.measure_share(
        StudyFolder(tmp_path), TRAININGS, plan, held=(), task="12_1", bench=None, json=False
    )
    assert did == (["scancel 12", "analysed"] if ends else [])


def test_who_follows_is_told_why_tasks_left_trials(tmp_path):
    folder = StudyFolder(tmp_path)
    folder.slurm.mkdir()
    array = JobState("12", "COMPLETED", tasks=(JobState("12", "COMPLETED", task="1"),), task="1")
    assert why_left(folder, array) is None
    (folder.slurm / "job-12_1.log").write_text(
        "paceline: task 12_1 ran 1 trial, 0 are left or with other tasks\n"
    )
    assert why_left(folder, array) is None
    said = "paceline: task 12_2 ran 1 trial, 3 are left or with other tasks; run t-4 would take about 2 h\n"
    (folder.slurm / "job-12_2.log").write_text(said)
    assert why_left(folder, array) == "run t-4 would take about 2 h"
    (folder.slurm / "job-7.log").write_text(
        "  ok in 3 s\nstopped by the budget: 90 of 100 device seconds\nReport: s\n"
    )
    assert why_left(folder, JobState("7", "COMPLETED")) == "stopped by the budget: 90 of 100 device seconds"


# ------------------------------------------------------------------ what Slurm says of an array

LINE = (
    "JobId={id} ArrayJobId=12 ArrayTaskId={task} JobName=paceline-t JobState={state} Reason={reason} Restarts=0 "
    "ExitCode={code} RunTime=00:01:00 TimeLimit=00:10:00 NodeList={nodes}"
)


def line(number, task, state, *, reason="None", code="0:0", nodes="(null)"):
    return LINE.format(id=number, task=task, state=state, reason=reason, code=code, nodes=nodes)


RUNNING = [line(14, 2, "RUNNING", nodes="n2"), line(13, 1, "RUNNING", nodes="n1")]
WAITING = line(12, "3-5%2", "PENDING", reason="JobArrayTaskLimit")


def shown(*lines):
    return job_from_scontrol("12", "\n".join(lines))


def test_an_array_runs_while_one_task_does_and_waits_while_one_waits():
    completed = line(13, 1, "COMPLETED")
    assert phase(shown(WAITING, *RUNNING)) == "running"
    assert phase(shown(WAITING, completed)) == "waiting"
    assert phase(shown(completed)) == "over"


def test_every_task_is_told_and_what_is_alike_is_told_once():
    assert ended_text(shown(WAITING, *RUNNING), left=0).startswith(
        "job 12: tasks 1, 2 are RUNNING on n1, n2; tasks 3-5 wait (JobArrayTaskLimit: "
    )
    many = [line(20 + n, n, "COMPLETED") for n in range(1, 8)]
    lost = line(30, 8, "CANCELLED", code="0:15")
    assert ended_text(shown(*many, lost), left=1).startswith(
        "job 12: 7 tasks completed; task 8 was cancelled"
    )


def test_an_array_ends_as_the_task_that_did_not_complete():
    job = shown(line(13, 1, "COMPLETED"), line(14, 2, "FAILED", code="1:0"), line(15, 3, "COMPLETED"))
    assert (job.state, job.exit_code, log_name(job)) == ("FAILED", 1, "job-12_2.log")
    assert log_name(JobState("7", "FAILED")) == "job-7.log"


def test_one_task_is_asked_about_by_its_own_number():
    job = job_from_scontrol("12_2", RUNNING[0])
    assert (job.id, job.task, job.nodes, job.tasks) == ("12_2", "2", "n2", ())
    assert task_here({"SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "2"}) == "12_2"
    assert task_here({"SLURM_JOB_ID": "12"}) is None


def test_accounts_of_an_array_are_those_of_its_tasks():
    text = "12_1|COMPLETED|0:0\n12_1.batch|COMPLETED|0:0\n12_2|CANCELLED by 0|0:15\n12_[3-5%2]|PENDING|0:0\n"
    assert job_from_sacct("12", text).state == "PENDING"
    assert job_from_sacct("12_2", text).state == "CANCELLED"
    assert [task.task for task in job_from_sacct("12", text).tasks] == ["1", "2", "3-5%2"]


def test_a_task_that_slurm_has_forgotten_is_gone_and_not_silent(monkeypatch):
    def call(*words):
        said = "Job 12_7 not found" if words[0] == "scontrol" else ""
        return slurm_client.subprocess.CompletedProcess(words, 0, said, "")

    monkeypatch.setattr(slurm_client, "_call", call)
    assert job_state("12_7").state == "GONE"
