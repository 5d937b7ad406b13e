"""The hard ends of a job on a real Slurm: a node that dies, time that is up, another job that matters more."""

import pytest

from paceline.store.claims import holders
from paceline.store.paths import StudyFolder
from paceline.store.trial_files import read_results
from tests.slurm.test_study import TRAINING, Watching, jobs_of, states_of, wait_for
from tests.support.desk import SCRIPTS, SMALL, desk, processes_of
from tests.support.slurm_cluster import absent, cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(absent() is not None, reason=f"no Slurm here: {absent()}"),
    pytest.mark.timeout(900),
]
TRAIN = str(SCRIPTS / "faults_train.py")
LONG = (*SMALL, "--steps", "600")


@pytest.fixture
def slurm(tmp_path_factory, monkeypatch):
    with cluster(tmp_path_factory.mktemp("slurm"), grace_s=5) as made:
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        yield made


def stepping(root, trial, workers):
    beats = [root / "trials" / trial / f"heartbeat-{rank}" for rank in range(workers)]
    wait_for(lambda: all(beat.exists() for beat in beats), f"steps of {trial}", 240)
    return jobs_of(root)[-1]


def test_a_node_that_dies_puts_the_job_back_and_the_study_goes_on(slurm, tmp_path):
    study = Watching("--on", "slurm", "--nodes", "1,2", *LONG, "--out", "s", TRAIN, cwd=tmp_path)
    job = stepping(tmp_path / "s", "n2-w2-1", 2)
    slurm.lose_node("n2")
    wait_for(lambda: slurm.state(job) == "PENDING", f"job {job} put back", 240)
    slurm.start_node("n2")
    assert study.end(600) == 0, study.said  # Slurm lets a job that it has put back wait for two minutes
    assert "started again once" in study.said
    assert states_of(tmp_path / "s") == {"n1-w1-1": "ok", "n2-w2-1": "ok"}
    two = next(r for r in read_results(StudyFolder(tmp_path / "s")) if r.trial.point.nodes == 2)
    assert {sample.node for sample in two.telemetry} == {0, 1}
    assert jobs_of(tmp_path / "s") == [job]
    assert not processes_of(tmp_path / "s")


def test_what_a_task_on_a_dead_node_held_is_taken_by_another_before_it_is_back(slurm, tmp_path):
    """The node never comes back: the task that was put back has nothing to do any more, and leaves the queue."""
    (tmp_path / "train.py").write_text(TRAINING)
    asked = ("--on", "slurm", "--nodes", "1", "--threads", "2", "--to-accuracy", "0.5", "--seeds", "2")
    script = ("--seed-flag", "--seed", "--out", "s", "train.py", "--", "--until", "go")
    study = Watching(*asked, *script, cwd=tmp_path)
    stepping(tmp_path / "s", "n1-w1-1", 1)
    job = stepping(tmp_path / "s", "n1-w1-2", 1)
    held = {holder.task: trial for trial, (_, holder) in holders(StudyFolder(tmp_path / "s")).items()}
    on_n2 = next(task for task in held if "NodeList=n2" in slurm.call("scontrol", "show", "job", task, "-o"))
    slurm.lose_node("n2")
    wait_for(lambda: slurm.state(on_n2) == "PENDING", f"task {on_n2} put back", 240)
    (tmp_path / "go").touch()
    assert study.end(600) == 0, study.said
    assert states_of(tmp_path / "s") == {"n1-w1-1": "ok", "n1-w1-2": "ok"}
    number, taken = holders(StudyFolder(tmp_path / "s"))[held[on_n2]]
    assert number == 2
    assert taken.task != on_n2
    assert jobs_of(tmp_path / "s") == [job]
    assert slurm.call("squeue", "--noheader") == ""


def test_what_was_measured_before_the_time_limit_is_kept_and_the_rest_is_submitted_again(slurm, tmp_path):
    asked = ("--on", "slurm", "--nodes", "1", "--time", "2min", *SMALL, "--repeats", "30", "--tight", "0")
    study = Watching(*asked, "--out", "s", TRAIN, cwd=tmp_path)
    assert study.end(400) == 130, study.said
    kept = states_of(tmp_path / "s")
    assert set(kept.values()) == {"ok"}
    assert 0 < len(kept) < 30
    assert "came near its time limit of 2 min 0 s and left in order" in study.said
    assert f"{30 - len(kept)} runs are left; what was measured is kept" in study.said
    again = Watching("s", cwd=tmp_path, name="again").until(f"run n1-w1-{len(kept) + 1} ")
    assert len(jobs_of(tmp_path / "s")) == 2
    slurm.call("scancel", jobs_of(tmp_path / "s")[-1])
    assert again.end() == 130
    assert kept.items() <= states_of(tmp_path / "s").items()


def test_a_preempted_job_is_put_back_and_no_trial_is_blamed(slurm, tmp_path):
    """Its steps are ended first, while the job is still called RUNNING: that is not the trial's failure."""
    study = Watching("--on", "slurm", "--nodes", "1", *LONG, "--out", "s", TRAIN, cwd=tmp_path)
    job = stepping(tmp_path / "s", "n1-w1-1", 1)
    urgent = ("sbatch", "-p", "urgent", "-N2", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 2")
    slurm.call(*urgent)
    wait_for(lambda: slurm.state(job) == "PENDING", f"job {job} put back", 240)
    slurm.wait_for_nodes(timeout_s=120)  # the urgent one is over, and no step of ours is left
    slurm.call("scontrol", "update", f"JobId={job}", "StartTime=now")
    assert study.end(400) == 0, study.said
    assert "started again once" in study.said
    assert states_of(tmp_path / "s") == {"n1-w1-1": "ok"}


def test_a_script_submitted_by_hand_is_found_by_its_name(slurm, tmp_path):
    asked = ("--on", "slurm", "--nodes", "2", "--workers-per-node", "2", *SMALL, "--out", "s", TRAIN)
    emitted = desk("study", "--emit", "sbatch", *asked, cwd=tmp_path)
    assert emitted.returncode == 0, emitted.stderr
    script = tmp_path / "s" / "slurm" / "job.sbatch"
    assert emitted.stdout == script.read_text()
    assert slurm.call("squeue", "-h") == ""
    job = slurm.call("sbatch", "--parsable", script)
    followed = desk("study", "s", cwd=tmp_path, timeout=400)
    assert followed.returncode == 0, followed.stderr
    assert f"is under way: job {job}" in followed.stderr
    assert states_of(tmp_path / "s") == {"n2-w4-1": "ok"}
