"""Trials inside an allocation of Slurm: each is one step (srun), one torchrun per node.

    srun --nodes N --ntasks-per-node 1 --nodelist n1,…  PYTHON -m paceline_agent.enter.on_node HOST FOLDER -- torchrun …

Without --exact a step has all that the job has on its nodes: one trial at a time, on everything. The step is named
after the trial, so that a later desk finds and ends what an earlier one left. Ending: srun is told, then the step is
killed by Slurm on every node, then what is left here carries the trial's tag.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from paceline.core.errors import Interrupted
from paceline.launch.command import Command, Rendezvous
from paceline.launch.local import LocalLaunch, LocalLauncher
from paceline.launch.slurm.client import SlurmSilent, job_state, node_lines, signal_step, steps
from paceline.launch.slurm.container import contained
from paceline.records import Trial
from paceline.slurm.state import JobState, node_trouble

__all__ = ["SlurmLauncher"]

_EXPORT = "--export=ALL"  # a job that was submitted with --export=NONE hands nothing to its steps otherwise
_KILL_S = 30.0
_LOOK_S = 0.5
_RETURN_S = 600.0  # Slurm gives a silent node up after SlurmdTimeout, 300 s unless the site says otherwise
_LOOK_AGAIN_S = 5.0
_MOST_GRACE_S = 3600.0
_ASK_S = 20.0
_AGENT = "paceline_agent"  # what comes after it on a command line is the script
# every process of the trial that catches the agent's signal, and no other: torchrun would die of it
_ASK_STACKS = """
import os, signal, sys
number = signal.SIGRTMIN + 7
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        held = open(f"/proc/{pid}/environ", "rb").read().split(b"\\0")
        caught = next(line for line in open(f"/proc/{pid}/status") if line.startswith("SigCgt"))
        if f"PACELINE_TAG={sys.argv[1]}".encode() in held and int(caught.split()[1], 16) >> number - 1 & 1:
            os.kill(int(pid), number)
    except (OSError, StopIteration):
        continue
"""


class SlurmLaunch:
    """One trial under way: its srun, and the step behind it."""

    def __init__(
        self, here: LocalLaunch, sampler: LocalLaunch | None, launcher: SlurmLauncher, command: Command
    ) -> None:
        self._here = here
        self._sampler = sampler
        self._launcher = launcher
        self._tag = command.tag
        self._folder = Path(command.trial_dir)
        self._nodes = _nodes_of(command)
        self._asked: bool | None = None

    def exit_code(self) -> int | None:
        code = self._here.exit_code()
        if code:
            self._refuse_foreign_end()
        return code

    def _refuse_foreign_end(self) -> None:
        """A step that Slurm ended with its job says nothing about the trial: leave, or wait to be put back."""
        job = _known(self._launcher.asked)
        if job is not None and job.preempted and job.state in ("RUNNING", "SIGNALING"):
            # steps are ended first; who leaves now has failed, who is ended after the time of grace is queued again
            time.sleep(_MOST_GRACE_S)
        if job is not None and (job.preempted or job.state != "RUNNING"):
            raise Interrupted(f"job {self._launcher.asked} is {job.state}; every complete run is kept")

    def ask_stacks(self, pid: int) -> bool:
        """The first question asks every worker on every node; a pid means nothing on another node."""
        if self._asked is None:
            ask = [sys.executable, "-c", _ASK_STACKS, self._tag]
            words = [*self._launcher.srun(self._nodes, name="paceline-stacks"), *ask]
            try:
                done = subprocess.run(
                    words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASK_S, check=False
                )
                self._asked = done.returncode == 0
            except subprocess.TimeoutExpired:
                self._asked = False
        return self._asked

    def end(self) -> None:
        well = self._here.exit_code() == 0
        self._here.end()
        if self._sampler is not None:
            self._sampler.end()
        _end_steps(self._launcher.asked, self._tag)
        for number, reason in {} if well else self._launcher.lost(self._nodes).items():
            (self._folder / f"lost-{number}.json").write_text(
                json.dumps({"reason": reason}), encoding="utf-8"
            )


@dataclass(frozen=True, slots=True)
class SlurmLauncher:
    """Starts trials as steps of one job."""

    job: str
    nodes: tuple[str, ...]
    address: str  # of the first node, where nodes meet
    container: str | None = None
    task: str | None = (
        None  # 12_3 where the job is a task of an array: its number alone may mean the whole array
    )

    @property
    def asked(self) -> str:
        """How Slurm is asked about the job."""
        return self.task or self.job

    def start(self, command: Command, output: BinaryIO) -> SlurmLaunch:
        here = LocalLauncher().start(replace(command, argv=tuple(self.words(command))), output)
        return SlurmLaunch(here, self._sampled(command), self, command)

    def _sampled(self, command: Command) -> LocalLaunch | None:
        """Telemetry on the nodes where the desk is not, as a step beside the trial's."""
        nodes = self.nodes[: _nodes_of(command)]
        if len(nodes) == 1:
            return None
        place = ["--jobid", self.job, "--nodelist", ",".join(nodes[1:]), "--nodes", str(len(nodes) - 1)]
        place += ["--ntasks", str(len(nodes) - 1)]
        how = ["--ntasks-per-node", "1", "--overlap", "--mpi", "none", "--quiet", _EXPORT]
        code = [
            sys.executable,
            "-m",
            "paceline.launch.slurm.sample",
            command.trial_dir,
            command.tag,
            ",".join(nodes),
        ]
        words = ["srun", *place, *how, "--job-name", f"{_step_name(command.tag)}.telemetry", *code]
        desk = {**command.environment, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        with open(os.devnull, "wb") as nowhere:
            return LocalLauncher().start(replace(command, argv=tuple(words), environment=desk), nowhere)

    def words(self, command: Command) -> list[str]:
        """The command of a trial as a step."""
        python = command.argv[0]
        node = [python, "-m", "paceline_agent.enter.on_node", self.address, command.trial_dir, "--"]
        options, inside = contained(self.container, _folders(command))
        srun = self.srun(_nodes_of(command), name=_step_name(command.tag))
        return [*srun, *options, *inside, *node, *command.argv]

    def srun(self, nodes: int, *, name: str) -> list[str]:
        """srun on the first nodes of the allocation, one task each, on all that the job has there."""
        count = ["--nodes", str(nodes), "--ntasks", str(nodes), "--ntasks-per-node", "1"]
        place = ["--jobid", self.job, "--nodelist", ",".join(self.nodes[:nodes])]
        how = ["--overlap", "--cpu-bind", "none", "--mpi", "none", "--kill-on-bad-exit=1", "--job-name", name]
        return ["srun", *place, *count, *how, _EXPORT]

    def rendezvous(self, trial: Trial) -> Rendezvous:
        """Where the nodes of a trial meet: the first node, at a port that is free now."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            return Rendezvous(f"{_in_url(self.address)}:{probe.getsockname()[1]}", f"{self.job}-{trial.id}")

    def refusal(self, trial: Trial) -> str | None:
        """Why a trial cannot be started in this allocation now."""
        if trial.point.nodes > len(self.nodes):
            return f"needs {trial.point.nodes} nodes; job {self.asked} has {len(self.nodes)}"
        for _ in range(int(_RETURN_S / _LOOK_AGAIN_S)):
            lost = self.lost(trial.point.nodes)
            if not lost:
                return None
            if any("DOWN" in reason for reason in lost.values()):
                break  # given up already, and the job was told to go on without it
            # it answers again, or Slurm gives it up and starts the job again without it
            time.sleep(_LOOK_AGAIN_S)
        return f"cannot start: {'; '.join(lost.values())}"

    def lost(self, nodes: int) -> dict[int, str]:
        """Of the first nodes those that Slurm says do not work, by number, in words."""
        lines = node_lines(self.nodes[:nodes])
        trouble = {
            number: node_trouble(lines.get(name, "")) for number, name in enumerate(self.nodes[:nodes])
        }
        return {n: f"node {n} ({self.nodes[n]}) is {word}" for n, word in trouble.items() if word is not None}

    def end_leftovers(self, study_tag: str) -> int:
        left = _end_steps(self.asked, study_tag)
        return left + LocalLauncher().end_leftovers(study_tag)


def _end_steps(job: str, tag: str) -> int:
    """Kill the steps of this trial (or study) on every node, and wait until Slurm has none; how many there were."""
    found = 0
    for _ in range(int(_KILL_S / _LOOK_S)):
        left = steps(job, named=_step_name(tag))
        if not left:
            break
        found = max(found, len(left))
        for step in left:
            signal_step(step, "KILL")
        time.sleep(_LOOK_S)
    return found


def _step_name(tag: str) -> str:
    return f"paceline-{tag}"


def _nodes_of(command: Command) -> int:
    argv = command.argv
    return int(argv[argv.index("--nnodes") + 1]) if "--nnodes" in argv else 1


def _folders(command: Command) -> list[str]:
    """What a container must see: the trial's folder, the one that the script runs in, and the one that it lies in."""
    argv = command.argv
    target = argv[argv.index(_AGENT) + 1] if _AGENT in argv else "-m"
    script = [] if target == "-m" else [os.path.dirname(os.path.join(command.directory, target))]
    named = map(os.path.abspath, (command.trial_dir, command.directory, *script))
    own_root = os.sep  # a container has one
    return [folder for folder in dict.fromkeys(named) if folder != own_root]


def _known(job: str) -> JobState | None:
    try:
        return job_state(job)
    except SlurmSilent:
        return None


def _in_url(address: str) -> str:
    return f"[{address}]" if ":" in address else address
