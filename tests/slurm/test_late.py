"""A network file system shows things late: new names after seconds, a heartbeat after half a minute."""

import errno
import fcntl
import json
import os
import struct
import threading
from pathlib import Path

import pytest

from paceline.launch.command import Rendezvous
from paceline.launch.slurm import sample as slurm_sample
from paceline.plan.trials import plan_study
from paceline.records import Study, Workload
from paceline.run.trial import Bench, run_trial
from paceline.run.watch import Limits, watch
from paceline.store.claims import Holder, claim, holders
from paceline.store.lock import locked
from paceline.store.paths import StudyFolder
from paceline.store.trial_files import complete_trials, is_complete, prepare, remove_incomplete
from paceline_agent.record import files
from tests.run.test_run import FakeClock, FakeLaunch, beat
from tests.support import late_mounts

STUDY = Study(
    Workload("module", "train"), nodes=(2,), workers=(2,), workers_per_node=(1,), steps=10, warmup=2
)
TRIAL = plan_study(STUDY).trials[0]


class LateClock(FakeClock):
    """A clock at which things happen: once it reads so late, the files of workers can be seen."""

    def __init__(self, folder: Path, visible_at_s: float) -> None:
        super().__init__()
        self.folder, self.visible_at_s = folder, visible_at_s

    def pause(self, seconds):
        super().pause(seconds)
        if self.now >= self.visible_at_s:
            for hidden in self.folder.glob("trials/*/.late-*"):
                hidden.rename(hidden.with_name(hidden.name.removeprefix(".late-")))


class OverAtOnce:
    """A launcher whose trial is over when it has begun; its workers' files are there, and not yet to be seen."""

    def __init__(self, code=0, log=""):
        self.code, self.log = code, log

    def start(self, command, output):
        output.write(self.log.encode())
        for rank in range(2):
            step = '{"record": "step", "k": %d, "end_s": 1.0, "step_s": 0.1, "optimizer_s": 0, "own_s": 0}'
            lines = [*(step % k for k in range(1, 18)), '{"record": "end", "reason": "enough", "steps": 17}']
            (Path(command.trial_dir) / f".late-worker-{rank}.jsonl").write_text("\n".join(lines))
        return self

    def exit_code(self):
        return self.code

    def end(self):
        return None


def run(tmp_path, *, visible_at_s, lag_s, code=0, log=""):
    folder = StudyFolder(tmp_path)
    agent = tmp_path / "agent"
    agent.mkdir()
    clock = LateClock(folder.root, visible_at_s)
    bench = Bench(
        OverAtOnce(code, log),
        "python",
        1,
        agent,
        None,
        clock,
        rendezvous=lambda trial: Rendezvous("h:1", trial.id),
        lag_s=lag_s,
    )
    return run_trial(folder, STUDY, TRIAL, bench=bench, stepped=lambda beats: None), clock


def test_files_that_appear_late_are_waited_for(tmp_path):
    result, clock = run(tmp_path, visible_at_s=6.0, lag_s=15.0)
    assert result.state == "ok"
    assert clock.now == pytest.approx(6.0, abs=1.0)


def test_without_a_network_nothing_is_waited_for(tmp_path):
    result, clock = run(tmp_path, visible_at_s=6.0, lag_s=0.0)
    assert result.state == "short"  # it ended with 0, and no step of it was seen
    assert clock.now == 0.0


def test_files_that_never_come_end_the_waiting(tmp_path):
    result, clock = run(tmp_path, visible_at_s=1e9, lag_s=15.0)
    assert result.state == "short"
    assert clock.now == pytest.approx(15.0, abs=1.0)


def test_a_step_that_slurm_ended_for_want_of_memory_is_out_of_memory(tmp_path):
    log = "Root Cause (first observed failure):\n rank : 1 (local_rank: 0)\n exitcode : -9 (pid: 5)\n"
    slurm = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.1. Some of the step tasks have been OOM Killed.\n"
    result, _ = run(tmp_path, visible_at_s=1e9, lag_s=0.0, code=1, log=log + slurm)
    assert result.state == "oom"
    assert "worker 1 of 2 killed by SIGKILL" in result.reason


def test_after_a_failure_a_worker_may_have_left_nothing_so_little_is_waited(tmp_path):
    _, clock = run(tmp_path, visible_at_s=1e9, lag_s=15.0, code=1)
    assert clock.now == pytest.approx(3.0, abs=1.0)


def test_a_step_that_may_be_seen_late_is_given_that_much_longer(tmp_path):
    beat(tmp_path, 0, 3)
    clock = FakeClock()
    limits = Limits(timeout_s=600.0, hang_s=5.0, lag_s=15.0)
    end = watch(
        FakeLaunch(clock), tmp_path, workers=1, limits=limits, clock=clock, stepped=lambda beats: None
    )
    assert (end.how, end.wall_s) == ("hung", pytest.approx(20.0, abs=1.0))


MOUNTS = """22 1 8:1 / / rw - ext4 /dev/sda rw
30 22 0:40 / /home rw - nfs4 server:/home rw
31 30 8:2 / /home/fast\\040disk rw - ext4 /dev/sdb rw
32 22 0:41 / /scratch rw - lustre mgs:/scratch rw
33 22 0:42 / /mnt rw - ext4 /dev/sdc rw
34 22 0:43 / /mnt rw - fuse.sshfs me@host: rw
"""


@pytest.mark.parametrize(
    ("folder", "shared"),
    [
        ("/data/s", False),
        ("/home/me/s", True),
        ("/homes/s", False),
        ("/home/fast disk/s", False),
        ("/scratch/s", True),
        ("/mnt/s", True),
    ],
)
def test_the_innermost_mount_says_whether_a_folder_is_shared(folder, shared, tmp_path):
    (tmp_path / "mounts").write_text(MOUNTS)
    assert files.on_network(folder, str(tmp_path / "mounts")) is shared


def test_a_machine_without_a_table_of_mounts_is_taken_to_be_alone(tmp_path):
    assert files.on_network("/home", str(tmp_path / "none")) is False


def test_on_a_network_a_heartbeat_is_sent_on_and_elsewhere_no_thread_is_started(tmp_path, monkeypatch):
    flushed = threading.Event()
    monkeypatch.setattr(files, "FLUSH_S", 0.01)
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.set())
    files.Heartbeat(str(tmp_path), 0)
    assert not [t for t in threading.enumerate() if t.name == "paceline-heartbeat"]
    monkeypatch.setattr(files, "on_network", lambda folder: True)
    beating = files.Heartbeat(str(tmp_path), 1)
    beating.step(7, 1.0)
    assert flushed.wait(10)
    assert struct.unpack_from("<Q", (tmp_path / "heartbeat-1").read_bytes()) == (7,)
    monkeypatch.setattr(os, "fsync", _gone)  # the thread ends with the file
    wait = [t for t in threading.enumerate() if t.name == "paceline-heartbeat"]
    wait[0].join(10)
    assert not wait[0].is_alive()


def _gone(descriptor):
    raise OSError("the file is gone")


def test_a_file_that_cannot_be_mapped_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(files.mmap, "mmap", _no_device)
    beating = files.Heartbeat(str(tmp_path), 0)
    beating.phase(0, files.STEPPING)
    beating.step(9, 2.5)
    steps, at_s, pid, phase = files.HEARTBEAT.unpack((tmp_path / "heartbeat-0").read_bytes())
    assert (steps, at_s, pid, phase) == (9, 2.5, os.getpid(), files.STEPPING)


def _no_device(*args):
    raise OSError(errno.ENODEV, "No such device")


def test_a_file_system_without_locks_does_not_stop_a_study(tmp_path, monkeypatch):
    def flock(descriptor, operation):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(StudyFolder(tmp_path)):
        assert json.loads((tmp_path / ".lock").read_text())["pid"] == os.getpid()


# ------------------------------------------------------------------ two machines that share a folder


@pytest.fixture(scope="module")
def late(tmp_path_factory):
    """One folder, seen here and there through mounts that believe for a minute what they have seen."""
    if late_mounts.absent() is not None:
        pytest.skip(f"no late folder here: {late_mounts.absent()}")
    with late_mounts.shared_late(tmp_path_factory.mktemp("late"), ("n1",), late_s=60.0) as shared:
        yield shared


def sights(late, name):
    """A study as seen here, and as seen there."""
    (late.server / name).mkdir()
    return StudyFolder(late.here / name), StudyFolder(late.views["n1"] / name)


def test_a_late_folder_denies_a_name_that_was_asked_for_too_early(late):
    """Were it otherwise the next tests would prove nothing."""
    here, there = sights(late, "early")
    assert not (here.root / "name").exists()
    (there.root / "name").touch()
    assert not (here.root / "name").exists()


def test_a_commit_mark_is_seen_at_once_although_it_was_looked_for_before(late):
    here, there = sights(late, "marked")
    there.trial("t-1").mkdir(parents=True)
    assert complete_trials(here) == []
    assert not is_complete(here, "t-1")
    (there.trial("t-1") / "trial.json").touch()
    assert [path.name for path in complete_trials(here)] == ["t-1"]
    assert is_complete(here, "t-1")


def test_a_sampler_elsewhere_ends_with_the_trial_although_it_looked_before(late):
    here, there = sights(late, "sampled")
    there.trial("t-1").mkdir(parents=True)
    assert slurm_sample._under_way(here.trial("t-1"))
    (there.trial("t-1") / "trial.json").touch()
    assert not slurm_sample._under_way(here.trial("t-1"))
    assert not slurm_sample._under_way(here.trial("gone"))


def test_of_two_machines_one_has_a_trial_although_neither_had_seen_the_others_claim(late):
    here, there = sights(late, "claimed")
    one, two = (Holder(f"12_{task}", 0, "paceline-t") for task in (1, 2))
    assert holders(here) == holders(there) == {}
    assert claim(there, "t-1", 1, two)
    assert not claim(here, "t-1", 1, one)
    assert claim(here, "t-2", 1, one)
    assert not claim(there, "t-2", 1, two)
    assert holders(here) == holders(there) == {"t-1": (1, two), "t-2": (1, one)}


def test_a_trial_that_a_lost_machine_began_is_begun_anew_by_another(late):
    here, there = sights(late, "taken")
    assert remove_incomplete(here) == ()
    prepare(there, TRIAL, packages=[])
    (there.trial(TRIAL.id) / "worker-0.jsonl").write_text("half")
    prepare(here, TRIAL, packages=[])
    assert os.listdir(late.server / "taken" / "trials" / TRIAL.id) == ["agent"]
