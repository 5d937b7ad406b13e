"""Studies on a real Slurm whose nodes share a folder that each of them sees late, as over a network.

Every client believes for 20 s what it has seen: names that are there or not, sizes, times. That is longer than the desk
waits for anything, so whoever asks for a name before it is there, or trusts an old answer, fails here.
"""

import pytest

from paceline.store.claims import holders
from paceline.store.paths import StudyFolder
from tests.slurm.test_study import TRAINING, Watching, jobs_of, states_of, wait_for
from tests.support import late_mounts
from tests.support.desk import SCRIPTS, SMALL, desk
from tests.support.slurm_cluster import absent, cluster

missing = absent() or late_mounts.absent()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing is not None, reason=f"no Slurm on a late folder here: {missing}"),
    pytest.mark.timeout(900),
]
LATE_S = 20.0


@pytest.fixture(scope="module")
def late(tmp_path_factory):
    folder = tmp_path_factory.mktemp("late")
    (folder / "slurm").mkdir()
    with (
        late_mounts.shared_late(folder, ("n1", "n2"), late_s=LATE_S) as shared,
        cluster(folder / "slurm", before=shared.before) as slurm,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in slurm.environment.items():
            patch.setenv(name, value)
        yield slurm, shared


def test_the_folder_is_seen_late_indeed(late):
    """Asked for too early, a name is denied although it is there: the other tests would prove nothing otherwise."""
    _, shared = late
    assert not (shared.here / "early").exists()
    (shared.server / "early").touch()
    assert not (shared.here / "early").exists()


def test_a_study_over_two_nodes_loses_nothing(late):
    _, shared = late
    (shared.server / "train.py").write_text((SCRIPTS / "faults_train.py").read_text())
    done = desk(
        "study",
        "--on",
        "slurm",
        "--nodes",
        "1,2",
        *SMALL,
        "--out",
        "s",
        "train.py",
        cwd=shared.here,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    assert states_of(shared.server / "s") == {"n1-w1-1": "ok", "n2-w2-1": "ok"}
    assert "run n2-w2-1" in done.stderr


def test_tasks_never_run_a_trial_twice_unless_one_was_lost(late):
    slurm, shared = late
    (shared.server / "tasks.py").write_text(TRAINING)
    asked = (
        "--on",
        "slurm",
        "--nodes",
        "1",
        "--threads",
        "2",
        "--to-accuracy",
        "0.5",
        "--seeds",
        "4",
        "--array",
        "2",
    )
    script = ("--seed-flag", "--seed", "--out", "a", "tasks.py", "--", "--until", "go")
    study = Watching(*asked, *script, cwd=shared.here)
    trials = shared.server / "a" / "trials"
    wait_for(lambda: len(list(trials.glob("*/heartbeat-0"))) == 2, study.log, 300)
    job, before = jobs_of(shared.server / "a")[0], holders(StudyFolder(shared.server / "a"))
    slurm.call("scancel", "--signal=KILL", "--full", f"{job}_2")
    (shared.server / "go").touch()
    assert study.end(600) == 0, study.said
    assert slurm.call("squeue", "--noheader") == ""
    assert states_of(shared.server / "a") == {f"n1-w1-{seed}": "ok" for seed in (1, 2, 3, 4)}
    lost = next(trial for trial, (_, holder) in before.items() if holder.task == f"{job}_2")
    claims = holders(StudyFolder(shared.server / "a"))
    assert {trial: number for trial, (number, _) in claims.items()} == {
        f"n1-w1-{seed}": 1 + (lost == f"n1-w1-{seed}") for seed in (1, 2, 3, 4)
    }
