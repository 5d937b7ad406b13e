"""Studies on a real Slurm: two nodes, real training over gloo, and the ways in which a job or its shell may end."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from paceline.launch.command import Command
from paceline.launch.slurm.client import steps
from paceline.launch.slurm.launcher import SlurmLauncher
from paceline.records import Allocation
from paceline.slurm.script import Job, sbatch_script
from paceline.store.claims import holders
from paceline.store.paths import StudyFolder
from paceline.store.trial_files import read_results
from tests.support.desk import PLAIN_DESK, ROOT, SCRIPTS, SMALL, desk, environment, processes_of
from tests.support.slurm_cluster import absent, cluster

pytestmark = [
    pytest.mark.skipif(absent() is not None, reason=f"no Slurm here: {absent()}"),
    pytest.mark.timeout(600),
]
TRAIN = str(SCRIPTS / "faults_train.py")
NEVER_ENDS = ("--steps", "100000", "--warmup", "2", "--repeats", "1")


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    with cluster(tmp_path_factory.mktemp("slurm")) as made:
        os.environ.update(made.environment)
        yield made
        for name in made.environment:
            del os.environ[name]


class Watching:
    """A desk on the login node whose words are kept in a file."""

    def __init__(self, *args, cwd, name="desk"):
        self.log = Path(cwd) / f"{name}.log"
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(
                [*PLAIN_DESK, "study", *map(str, args)], cwd=cwd, env=environment(), stdout=out, stderr=out
            )

    def until(self, text, timeout_s=120):
        """Wait until the desk has said this."""
        wait_for(
            lambda: text in self.said or self.process.poll() is not None, f"{text!r}: {self.log}", timeout_s
        )
        assert text in self.said, self.said
        return self

    @property
    def said(self):
        return self.log.read_text()

    def end(self, timeout_s=240):
        return self.process.wait(timeout=timeout_s)


def wait_for(holds, what, timeout_s=120):
    until = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < until, f"not within {timeout_s} s: {what}"
        time.sleep(0.2)


def jobs_of(root):
    return [job["id"] for job in json.loads((root / "slurm" / "jobs.json").read_text())["jobs"]]


def states_of(root):
    return {result.trial.id: result.state for result in read_results(StudyFolder(root))}


# ------------------------------------------------------------------ one allocation, whatever becomes of the shell


@pytest.fixture(scope="module")
def measured(slurm, tmp_path_factory):
    """Submitted from a shell that is killed at once, and found again by another desk, which follows it to its end."""
    where = tmp_path_factory.mktemp("measured")
    asked = ("--on", "slurm", "--nodes", "1,2", "--time", "30min", *SMALL, "--out", "s", TRAIN)
    shell = Watching(*asked, cwd=where, name="shell").until("is submitted")
    shell.process.kill()
    shell.process.wait()
    second = desk("study", "s", cwd=where, timeout=400)
    return where / "s", second


def test_one_job_measures_every_point_after_its_shell_was_killed(measured):
    root, second = measured
    assert second.returncode == 0, second.stderr
    assert states_of(root) == {"n1-w1-1": "ok", "n2-w2-1": "ok"}
    assert len(jobs_of(root)) == 1


def test_a_desk_that_comes_back_follows_the_job_it_finds(measured):
    root, second = measured
    job = jobs_of(root)[0]
    assert f"is under way: job {job}" in second.stderr
    assert "run n2-w2-1" in second.stderr
    assert f"job {job} completed" in second.stderr
    assert "submitted" not in second.stderr


def test_the_nodes_and_the_interface_they_exchange_over_are_said_aloud(measured):
    root, _ = measured
    said = (root / "slurm" / f"job-{jobs_of(root)[0]}.log").read_text()
    assert "n1 (127.0.0.1 over lo, " in said
    assert "n2 (127.0.0.1 over lo, " in said
    assert "by route to the first" in said


def test_a_finished_study_is_analysed_again_without_a_job(measured):
    root, _ = measured
    again = desk("study", root, "--json", cwd=root.parent)
    assert again.returncode == 0, again.stderr
    assert [point["workers"] for point in json.loads(again.stdout)["points"]] == [1, 2]
    assert len(jobs_of(root)) == 1


# ------------------------------------------------------------------ an array, one task of which is lost

TRAINING = """
import argparse, os, time, torch
from paceline_agent import mark

flags = argparse.ArgumentParser()
flags.add_argument("--seed", type=int)
flags.add_argument("--until", help="after its first epoch it waits for a file of this name")
given = flags.parse_args()
network = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
for epoch in range(1, 5):
    for _ in range(4):
        optimizer.zero_grad()
        network(torch.ones(2, 4)).square().mean().backward()
        optimizer.step()
        time.sleep(0.05)
    mark("val_accuracy", 0.2 * epoch + 0.01 * given.seed)
    while given.until and given.until not in os.listdir():
        time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def shared_out(slurm, tmp_path_factory):
    """Two tasks on two nodes, each in its training, when the shell and one task are killed; then a desk comes back."""
    where = tmp_path_factory.mktemp("shared_out")
    (where / "train.py").write_text(TRAINING)
    asked = ("--on", "slurm", "--nodes", "1", "--threads", "2", "--to-accuracy", "0.5", "--seeds", "2")
    script = ("--seed-flag", "--seed", "--out", "s", "train.py", "--", "--until", "go")
    shell = Watching(*asked, *script, cwd=where, name="shell")
    beats = [where / "s" / "trials" / f"n1-w1-{seed}" / "heartbeat-0" for seed in (1, 2)]
    wait_for(lambda: all(beat.exists() for beat in beats), shell.log, 300)
    shell.process.kill()
    shell.process.wait()
    job, before = jobs_of(where / "s")[0], holders(StudyFolder(where / "s"))
    slurm.call("scancel", "--signal=KILL", "--full", f"{job}_2")
    second = Watching("s", cwd=where, name="second").until("run n1-w1-1").until("run n1-w1-2")
    (where / "go").touch()
    assert second.end(400) == 0, second.said
    return where / "s", job, before, second.said


def test_tasks_of_an_array_work_at_once_each_on_its_own_trial(shared_out):
    _, job, before, _ = shared_out
    assert {number for number, _ in before.values()} == {1}
    assert {holder.task for _, holder in before.values()} == {f"{job}_1", f"{job}_2"}


def test_another_task_takes_up_what_a_killed_one_left(shared_out):
    root, job, before, _ = shared_out
    assert states_of(root) == {"n1-w1-1": "ok", "n1-w1-2": "ok"}
    lost = next(trial for trial, (_, holder) in before.items() if holder.task == f"{job}_2")
    number, taken = holders(StudyFolder(root))[lost]
    assert (number, taken.task) == (2, f"{job}_1")
    assert jobs_of(root) == [job]


def test_a_desk_that_comes_back_tells_of_every_task(shared_out):
    _, job, _, said = shared_out
    assert f"is under way: job {job}: task" in said
    assert "; task 2 was cancelled" in said
    assert "run n1-w1-1" in said
    assert "run n1-w1-2" in said


# ------------------------------------------------------------------ a job that somebody cancels


def test_a_cancelled_job_keeps_nothing_half_and_the_next_desk_submits_the_rest(slurm, tmp_path):
    study = Watching("--on", "slurm", "--nodes", "1", *NEVER_ENDS, "--out", "s", TRAIN, cwd=tmp_path)
    trial = tmp_path / "s" / "trials" / "n1-w1-1"
    wait_for((trial / "launcher.log").exists, study.log)
    job = jobs_of(tmp_path / "s")[0]
    slurm.call("scancel", job)
    assert study.end() == 130, study.said
    assert f"job {job} was cancelled: 1 run is left; what was measured is kept" in study.said
    assert "submits the rest" in study.said
    wait_for(lambda: not processes_of(tmp_path / "s"), "processes of the cancelled job")
    assert not (trial / "trial.json").exists()

    slurm.call("scontrol", "update", "PartitionName=main", "State=DOWN")
    try:
        second = Watching("s", cwd=tmp_path, name="second").until(
            "waits (PartitionDown: the partition is down)"
        )
        assert (
            f"job {job} was cancelled: 1 run is left; what was measured is kept; submitting again"
            in second.said
        )
        newer = jobs_of(tmp_path / "s")[-1]
        shown = desk("show", "s", cwd=tmp_path)
        assert f"job {newer} waits (PartitionDown: the partition is down)" in shown.stderr
        assert "not run" in shown.stdout
        refused = desk("study", "s", "--repeats", "4", cwd=tmp_path)
        assert refused.returncode == 1
        assert f"job {newer} is working on the study as it was asked for" in refused.stderr
        second.process.send_signal(signal.SIGINT)
        assert second.end() == 130
        assert f"job {newer} goes on without this shell" in second.said
        assert slurm.state(newer) == "PENDING"
    finally:
        slurm.call("scontrol", "update", "PartitionName=main", "State=UP")
        slurm.call("scancel", "--name", slurm.call("squeue", "-h", "-o", "%j"), check=False)


# ------------------------------------------------------------------ one trial as a step


@pytest.fixture
def allocation(slurm, tmp_path):
    """A job that holds both nodes and does nothing."""
    job = slurm.call("sbatch", "--parsable", "-N2", "-o", tmp_path / "log", "--wrap", "sleep 600")
    wait_for(lambda: slurm.state(job) == "RUNNING", f"job {job}")
    yield SlurmLauncher(job, slurm.nodes, "127.0.0.1")
    slurm.call("scancel", job)
    wait_for(lambda: slurm.state(job) != "COMPLETING", f"the end of job {job}")


def command(tmp_path, *words, nodes=2):
    argv = (sys.executable, *words, "--nnodes", str(nodes))
    known = {"PACELINE_TAG": "abc:t1", "PYTHONPATH": str(ROOT / "src")}
    return Command(argv, str(tmp_path), known, str(tmp_path), "abc:t1")


def test_a_step_runs_once_per_node_and_ends_on_all_of_them(allocation, slurm, tmp_path):
    """Its processes drop their tag, as if on another machine: only Slurm can reach them."""
    code = (
        "import os; from pathlib import Path; del os.environ['PACELINE_TAG'];"
        "Path('pid-' + os.environ['SLURMD_NODENAME']).write_text(str(os.getpid()));"
        "os.execvp('sleep', ['sleep', '600'])"
    )
    with open(tmp_path / "log", "wb") as output:
        launch = allocation.start(command(tmp_path, "-c", code), output)
    wait_for(lambda: all((tmp_path / f"pid-{node}").exists() for node in slurm.nodes), tmp_path / "log")
    assert launch.exit_code() is None
    sleepers = [psutil.Process(int((tmp_path / f"pid-{node}").read_text())) for node in slurm.nodes]
    launch.end()
    launch.end()
    assert steps(allocation.job, named="paceline-") == ()
    assert psutil.wait_procs(sleepers, timeout=60)[1] == []


# what an image would hold: a system and the script's interpreter; nothing of this project, no home, no other folder
IMAGE = (
    *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),  # before what may lie in them
    *(word for name in ("/usr", "/etc", sys.prefix, sys.base_prefix) for word in ("--ro-bind", name, name)),
    *(word for name in ("bin", "lib", "lib64") for word in ("--symlink", f"usr/{name}", f"/{name}")),
)
no_container = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not installed (bubblewrap)")


def stand_in_for_apptainer(folder):
    """Says how it was called, and runs the command in a root of its own that holds an image and what is bound."""
    tool = folder / "apptainer"
    lines = [
        'printf "<%s>" "$@"; echo; binds=()',
        'while [ "$1" != image.sif ]; do if [ "$1" = --bind ]; then binds+=(--bind "$2" "$2"); fi; shift; done; shift',
        f'exec bwrap {shlex.join(IMAGE)} "${{binds[@]}}" --chdir "$PWD" -- "$@"',
    ]
    tool.write_text("\n".join(["#!/bin/bash", *lines]))
    tool.chmod(0o755)


@no_container
def test_a_step_in_a_container_sees_the_folders_of_trial_and_script(allocation, tmp_path, monkeypatch):
    stand_in_for_apptainer(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    inside = replace(allocation, container="image.sif")
    code = f"import os; print('trained in', os.getcwd(), os.path.exists({__file__!r}))"
    step = command(tmp_path, "-c", code, nodes=1)
    shutil.copytree(ROOT / "src" / "paceline_agent", tmp_path / "agent" / "paceline_agent")
    step = replace(step, environment={**step.environment, "PYTHONPATH": str(tmp_path / "agent")})
    with open(tmp_path / "log", "wb") as output:
        launch = inside.start(step, output)
    wait_for(lambda: launch.exit_code() is not None, tmp_path / "log")
    launch.end()
    said = (tmp_path / "log").read_text()
    assert f"<exec><--nv><--bind><{tmp_path}><image.sif><{sys.executable}>" in said
    assert f"trained in {tmp_path} False" in said


def test_a_container_sees_the_script_wherever_it_lies():
    def binds(script):
        argv = (
            "python",
            "-m",
            "torch.distributed.run",
            "--nnodes",
            "1",
            "-m",
            "paceline_agent",
            *script,
            "--lr",
            "1",
        )
        words = inside.words(Command(argv, "/home/me", {}, "/scratch/s/trials/t", "abc:t"))
        return [words[at + 1] for at, word in enumerate(words) if word == "--bind"]

    inside = SlurmLauncher("7", ("n1",), "10.0.0.1", container="image.sif")
    assert binds(["/code/train.py"]) == ["/scratch/s/trials/t", "/home/me", "/code"]
    assert binds(["train.py"]) == binds(["-m", "train"]) == ["/scratch/s/trials/t", "/home/me"]


def test_stacks_are_asked_of_those_who_answer_on_every_node(allocation, slurm, tmp_path):
    code = (
        "import os, signal, time; from pathlib import Path; here = Path.cwd(); node = os.environ['SLURMD_NODENAME'];"
        "signal.signal(signal.SIGRTMIN + 7, lambda *a: (here / f'asked-{node}').touch());"
        "(here / f'ready-{node}').touch(); time.sleep(600) or time.sleep(600)"
    )
    with open(tmp_path / "log", "wb") as output:
        launch = allocation.start(command(tmp_path, "-c", code), output)
    try:
        wait_for(lambda: all((tmp_path / f"ready-{node}").exists() for node in slurm.nodes), tmp_path / "log")
        assert launch.ask_stacks(1)
        wait_for(lambda: all((tmp_path / f"asked-{node}").exists() for node in slurm.nodes), "an answer")
        assert launch.exit_code() is None
    finally:
        launch.end()


def test_sbatch_reads_hostile_values_back_as_they_were(slurm, tmp_path):
    hostile = 'it\'s "x" $HOME `id` a\\b #c'
    folder = tmp_path / "a b %j ä"
    folder.mkdir()
    script = tmp_path / "job.sbatch"
    job = Job("n", str(folder), "/bin/false", 1, 1, str(folder))
    script.write_text(sbatch_script(Allocation(options=(f"comment={hostile}",)), job))
    number = slurm.call("sbatch", "--parsable", script)
    shown = [line.strip() for line in slurm.call("scontrol", "show", "job", number).splitlines()]
    assert f"Comment={hostile}" in shown
    log = folder / f"job-{number}.log"
    wait_for(lambda: log.exists() and "import paceline with /bin/false" in log.read_text(), f"{log}")
    wait_for(lambda: slurm.state(number) == "FAILED", "a desk that cannot start fails its job")


@no_container
@pytest.mark.slow
def test_a_study_in_a_container_needs_nothing_of_the_desk_inside(slurm, tmp_path):
    stand_in_for_apptainer(tmp_path)
    path = f"export PATH={shlex.quote(str(tmp_path))}:$PATH"
    inside = ("--container", "image.sif", "--python", sys.executable, "--prologue", path)
    done = desk(
        "study",
        "--on",
        "slurm",
        "--nodes",
        "2",
        *inside,
        *SMALL,
        "--out",
        "s",
        TRAIN,
        cwd=tmp_path,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert states_of(tmp_path / "s") == {"n2-w2-1": "ok"}
    assert "<image.sif>" in (tmp_path / "s" / "trials" / "n2-w2-1" / "launcher.log").read_text()
