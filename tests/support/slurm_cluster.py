"""A real Slurm on this machine for tests: munged, slurmctld and one slurmd per node, all of it in a temporary folder.

Nodes differ by name and port only (`slurmd -N`), so paths are the same everywhere; own ports, own munge socket and
key, so that a Slurm of the machine is not touched. Daemons run in the foreground as children that die with the test.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

CONF = """ClusterName=paceline
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={ctld_port}
StateSaveLocation={folder}/ctld
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=10
KillWait=5
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/jobcomp.txt
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime={grace}
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=off
"""
NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=2000 State=UNKNOWN"
)
NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "setpriv")


@dataclass
class Cluster:
    """A Slurm that answers, its clients' environment, and the daemons by name."""

    folder: Path
    nodes: tuple[str, ...]
    before: dict[str, tuple[str, ...]] = field(default_factory=dict)  # words before a node's slurmd
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def call(self, *words: object, check: bool = True) -> str:
        """Run a client of Slurm; what it printed."""
        done = subprocess.run(
            [str(word) for word in words],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert not check or done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout.strip()

    def state(self, job: str) -> str:
        """The state of a job, in Slurm's words."""
        shown = self.call("scontrol", "show", "job", job, "-o", check=False)
        return next((w.partition("=")[2] for w in shown.split() if w.startswith("JobState=")), "GONE")

    def start_node(self, name: str) -> None:
        words = (*self.before.get(name, ()), "slurmd", "-D")
        self.daemons[name] = _daemon(self, *words, "-N", name, "-f", self.folder / "slurm.conf")

    def lose_node(self, name: str) -> None:
        """As if its power was cut: the slurmd and everything it started are gone at once."""
        lost = [self.daemons.pop(name), *_steps_of(self, name)]
        for process in lost:
            process.kill()
        lost[0].wait(timeout=60)

    def wait_for_nodes(self, *, timeout_s: float = 120.0) -> None:
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            idle = self.call("sinfo", "-h", "-N", "-p", "main", "-t", "idle", "-o", "%N", check=False)
            if set(idle.split()) == set(self.nodes):
                return
            time.sleep(0.2)
        raise AssertionError(f"nodes of {self.folder} do not become idle:\n{self.call('sinfo', check=False)}")


def absent() -> str | None:
    """Why no Slurm can be started here."""
    if os.geteuid() != 0:
        return "slurmd needs root"
    missing = [name for name in NEEDED if shutil.which(name) is None]
    return f"{', '.join(missing)} not installed (Debian: slurm-wlm, munge)" if missing else None


@contextmanager
def cluster(
    folder: Path, *, nodes: int = 2, grace_s: int = 0, before: dict[str, tuple[str, ...]] | None = None
) -> Iterator[Cluster]:
    """A Slurm of so many nodes of two cores each; afterwards nothing of it is left, whatever happened."""
    host, ports = socket.gethostname().partition(".")[0], _free_ports(nodes + 1)
    names = tuple(f"n{index}" for index in range(1, nodes + 1))
    folder.chmod(0o755)
    (folder / "ctld").mkdir()
    lines = [
        NODE.format(name=name, host=host, port=port) for name, port in zip(names, ports[1:], strict=True)
    ]
    text = CONF.format(host=host, folder=folder, ctld_port=ports[0], nodes="\n".join(lines), grace=grace_s)
    (folder / "slurm.conf").write_text(text)
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o400)
    made = Cluster(folder, names, before or {})
    with ExitStack() as ending:
        ending.callback(_end, made)
        files = {"socket": "munge.socket", "key-file": "munge.key", "log-file": "munge.log"}
        files |= {"pid-file": "munge.pid", "seed-file": "munge.seed"}
        named = [f"--{option}={folder / name}" for option, name in files.items()]
        made.daemons["munged"] = _daemon(made, "munged", "--foreground", "--force", *named)
        _until(lambda: (folder / "munge.socket").exists(), "munged made no socket")
        made.daemons["slurmctld"] = _daemon(made, "slurmctld", "-D", "-f", folder / "slurm.conf")
        for name in names:
            (folder / f"spool.{name}").mkdir()
            made.start_node(name)
        made.wait_for_nodes()
        yield made


def _daemon(made: Cluster, *words: object) -> subprocess.Popen[bytes]:
    with open(made.folder / "daemons.log", "ab") as log:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *map(str, words)],
            env={**os.environ, **made.environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _end(made: Cluster) -> None:
    """Jobs first, then the daemons, then whatever they had started."""
    if "slurmctld" in made.daemons:
        subprocess.run(
            ["scancel", "--signal=KILL", "--full", *_jobs(made)],
            env={**os.environ, **made.environment},
            capture_output=True,
            timeout=60,
            check=False,
        )
    children = _steps_of(made, None)
    for daemon in made.daemons.values():
        daemon.kill()
    for daemon in made.daemons.values():
        daemon.wait(timeout=60)
    left = {process.pid: process for process in [*children, *_steps_of(made, None), *_stepds_of(made)]}
    for process in left.values():
        if process.is_running():
            process.kill()
    psutil.wait_procs(list(left.values()), timeout=60)


def _jobs(made: Cluster) -> list[str]:
    return made.call("squeue", "-h", "-o", "%A", check=False).split()


def _steps_of(made: Cluster, node: str | None) -> list[psutil.Process]:
    """The tasks of this cluster (or of one node of it), by the environment they inherited, and their stepds."""
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        try:
            held = process.environ()
            ours = held.get("SLURM_CONF") == made.environment["SLURM_CONF"] and "SLURMD_NODENAME" in held
            if ours and node in (None, held["SLURMD_NODENAME"]):
                found[process.pid] = process
                stepds = [above for above in process.parents() if above.name().startswith("slurmstepd")]
                found |= {stepd.pid: stepd for stepd in stepds}
        except (psutil.Error, OSError):
            continue
    return list(found.values())


def _stepds_of(made: Cluster) -> list[psutil.Process]:
    """Stepds whose tasks have gone and who wait for a controller: known by the log that they hold open."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.name().startswith("slurmstepd"):
                logs = [file.path for file in process.open_files()]
                found += [process] if any(log.startswith(f"{made.folder}/") for log in logs) else []
        except (psutil.Error, OSError):
            continue
    return found


def _until(holds, otherwise: str, *, timeout_s: float = 60.0) -> None:
    until = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < until, otherwise
        time.sleep(0.05)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as open_sockets:
        found = []
        for _ in range(count):
            server = open_sockets.enter_context(socket.socket())
            server.bind(("127.0.0.1", 0))
            found.append(server.getsockname()[1])
        return found
