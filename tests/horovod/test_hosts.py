"""Workers on several hosts: who gets how many, what each host is told, and that nothing outlives the desk."""

import os
import stat
import subprocess
import sys

import pytest

from paceline.cli.options.horovod import run_options
from paceline.core.errors import UsageError
from paceline.launch.horovod.hosts import (
    Host,
    Meeting,
    command_on,
    hosts_in,
    hosts_of,
    script_on,
    shared_out,
    slurm_hosts,
)
from paceline.launch.horovod.start import HostsFailed, archive_of, start_all
from tests.support.slurm_cluster import absent, cluster

NODES = (Host("a", 2), Host("b", 4))


def program(path, text):
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_hosts_are_read_from_the_option_and_from_a_file():
    assert hosts_of("a:2,b:4") == NODES
    text = "# two machines\na slots=2\n\nb:4  # the large one\nc\n"
    assert hosts_in(text, name="hosts") == (*NODES, Host("c", 1))
    for wrong in ("a", "a:0", "a:b", ":2", ""):
        with pytest.raises(UsageError, match="not host:slots"):
            hosts_of(wrong)
    with pytest.raises(UsageError, match="names no host"):
        hosts_in("# nobody\n", name="hosts")


@pytest.mark.parametrize(
    ("workers", "expected"),
    [(None, [2, 4]), (6, [2, 4]), (5, [2, 3]), (2, [2]), (1, [1])],
)
def test_the_first_hosts_are_filled_first(workers, expected):
    assert [host.slots for host in shared_out(NODES, workers)] == expected


def test_more_workers_than_slots_are_refused_with_the_number_there_is():
    with pytest.raises(UsageError, match="more workers than the 6 slots"):
        shared_out(NODES, 7)


def test_an_allocation_gives_the_tasks_it_planned_or_equal_shares():
    assert [h.slots for h in slurm_hosts("abc", workers=None, tasks_per_node="4(x2),1")] == [4, 4, 1]
    assert [h.slots for h in slurm_hosts("ab", workers=8, tasks_per_node="1(x2)")] == [4, 4]
    assert [h.slots for h in slurm_hosts("ab", workers=2, tasks_per_node="")] == [1, 1]


def test_a_host_is_reached_by_ssh_by_srun_or_directly():
    node = Host("node7", 2)
    assert command_on(node, "echo 'x'", "here") == ["sh", "-c", "echo 'x'"]
    ssh = command_on(node, "echo 'x'", "ssh", ssh_port=2222, identity="key")
    assert ssh[:1] + ssh[-7:-1] == ["ssh", "-T", "-p", "2222", "-i", "key", "node7"]
    assert subprocess.run(["sh", "-c", ssh[-1]], capture_output=True, text=True).stdout == "x\n"
    srun = command_on(node, "true", "srun")
    assert "--nodelist=node7" in srun
    assert srun[-3:] == ["sh", "-c", "true"]


def test_what_is_told_to_a_host_survives_the_shell(tmp_path):
    echo = program(tmp_path / "python", '#!/bin/sh\nprintf "%s\\n" "$@" "$HOROVOD_X" "$SECRET" "$PYTHONPATH"')
    code = tmp_path / "code"
    code.mkdir()
    archive = archive_of(code)
    environment = {"HOROVOD_X": "it's 2 $words", "SECRET": "stays here", "PYTHONPATH": "/theirs"}
    script = script_on(
        NODES,
        1,
        ["python", "train.py", "--name", "a b"],
        python=str(echo),
        meeting=Meeting("10.0.0.1", 29501),
        restarts=0,
        folder=str(tmp_path),
        environment=environment,
        archive_bytes=len(archive),
    )
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as done:
        done.stdin.write(archive)
        done.stdin.flush()  # and open: the desk is there
        words = done.stdout.read().decode().splitlines()
        assert done.wait(timeout=30) == 0
    joined = " ".join(words)
    assert "--nnodes 2 --nproc-per-node 4 --node-rank 1" in joined
    assert "--master-addr 10.0.0.1 --master-port 29501" in joined
    assert words[words.index("train.py") :][:4] == ["train.py", "--name", "a b", "it's 2 $words"]
    assert "stays here" not in words
    assert words[-1].endswith(":/theirs")


def test_workers_end_when_the_desk_is_gone_and_leave_nothing_behind(tmp_path):
    sleeper = program(tmp_path / "python", '#!/bin/sh\necho "$$ $PYTHONPATH"\nexec sleep 300')
    script = script_on(
        NODES,
        0,
        ["train"],
        python=str(sleeper),
        meeting=Meeting("h", 1),
        restarts=2,
        folder=str(tmp_path),
        environment={},
        archive_bytes=0,
    )
    assert "--max-restarts 2" in script
    script = script.replace("head -c 0 | tar -xf - -C", "true")  # nothing to unpack here
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as desk_end:
        pid, folder = desk_end.stdout.readline().decode().split()
        assert os.path.isdir(folder)
        desk_end.stdin.close()
        assert desk_end.wait(timeout=30) != 0
    assert not os.path.exists(folder)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_the_first_host_that_fails_is_named_and_the_others_are_ended():
    waiting = ["sh", "-c", "cat >/dev/null; exit 9"]
    with pytest.raises(HostsFailed, match="node2: its workers ended with exit code 3"):
        start_all([waiting, ["sh", "-c", "exit 3"]], names=["node1", "node2"], archive=b"", grace_s=0.2)
    with pytest.raises(UsageError, match="there is no no-such-ssh here"):
        start_all([["no-such-ssh"]], names=["node1"], archive=b"")


def test_options_of_horovodrun_are_understood():
    options = run_options(
        [
            *(
                "-np",
                "4",
                "-H",
                "a:2,b:2",
                "-p",
                "2222",
                "--timeline-filename=t.json",
                "--timeline-mark-cycles",
            ),
            *(
                "--fusion-threshold-mb",
                "32",
                "--gloo",
                "--network-interfaces",
                "eth1",
                "--start-timeout",
                "60",
            ),
            *("python", "train.py", "-np", "9"),
        ]
    )
    assert (options.workers, options.ssh_port) == (4, 2222)
    assert options.command == ["python", "train.py", "-np", "9"]
    assert options.environment["HOROVOD_TIMELINE"] == "t.json"
    assert options.environment["HOROVOD_FUSION_THRESHOLD"] == str(32 << 20)
    assert options.environment["NCCL_SOCKET_IFNAME"] == options.environment["GLOO_SOCKET_IFNAME"] == "eth1"
    for wrong in (
        "-np x python t.py",
        "--mpi python t.py",
        "--unheard of python",
        "-np 2",
        "--hostfile no t.py",
    ):
        with pytest.raises(UsageError):
            run_options(wrong.split())


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        "import horovod.torch as hvd, torch\n"
        "hvd.init()\n"
        "total = hvd.allreduce(torch.tensor(hvd.rank()), op=hvd.Sum).item()\n"
        "place = hvd.rank(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size()\n"
        "said = f'place {place} {total} {hvd.is_homogeneous()}\\n'\n"
        "import sys; sys.stdout.write(said); sys.stdout.flush()\n"  # in one piece: all ranks write into one pipe
    )
    return path


@pytest.mark.slow
@pytest.mark.skipif(absent() is not None, reason=str(absent()))
def test_inside_an_allocation_workers_start_on_its_nodes(script, tmp_path_factory):
    with cluster(tmp_path_factory.mktemp("slurm")) as slurm:
        words = [sys.executable, "-m", "paceline", "horovod", "run", sys.executable, str(script)]
        done = subprocess.run(
            ["salloc", "--quiet", "-N2", "--ntasks-per-node=2", *words],
            capture_output=True,
            text=True,
            timeout=240,
            env={**os.environ, **slurm.environment},
        )
    assert done.returncode == 0, done.stderr
    assert sorted(line for line in done.stdout.splitlines() if line.startswith("place")) == [
        "place (0, 0, 2, 0, 2) 6 True",
        "place (1, 1, 2, 0, 2) 6 True",
        "place (2, 0, 2, 1, 2) 6 True",
        "place (3, 1, 2, 1, 2) 6 True",
    ]


def test_hosts_of_different_sizes_train_together_over_ssh(script, tmp_path):
    """ssh is a stand-in that runs the command here, as its host would."""
    program(tmp_path / "ssh", '#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"')
    done = subprocess.run(
        [
            *(sys.executable, "-m", "paceline", "horovod", "run", "-H", "127.0.0.2:1,127.0.0.3:2"),
            *(sys.executable, str(script)),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert done.returncode == 0, done.stderr
    assert "starting 3 workers on 127.0.0.2:1, 127.0.0.3:2 by ssh" in done.stderr
    assert sorted(line for line in done.stdout.splitlines() if line.startswith("place")) == [
        "place (0, 0, 1, 0, 2) 3 False",
        "place (1, 0, 2, 1, 2) 3 False",
        "place (2, 1, 2, 0, 1) 3 False",
    ]
