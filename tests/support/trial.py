"""Run one real trial the way the desk does, for tests of the agent: real processes, gloo, the real launcher."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import torch

import paceline_agent
from paceline.launch.command import Command
from paceline.launch.launcher import Launcher
from paceline.launch.local import LocalLaunch, LocalLauncher
from paceline.measure.split import split
from paceline.plan.trials import plan_study
from paceline.records import Split, Study, TrialResult, Workload
from paceline.run.clock import SystemClock
from paceline.run.trial import Bench, run_trial
from paceline.store.paths import StudyFolder
from tests.support.warm import WarmLauncher, run_ranks

SCRIPTS = Path(__file__).parents[1] / "scripts"
SOURCE = Path(paceline_agent.__file__).parents[1]


class InNamespace:
    """A launcher that starts trials inside a network namespace."""

    def __init__(self, name: str) -> None:
        self.name = name

    def start(self, command: Command, output: BinaryIO) -> LocalLaunch:
        inside = ("ip", "netns", "exec", self.name, *command.argv)
        return LocalLauncher().start(replace(command, argv=inside), output)

    def end_leftovers(self, study_tag: str) -> int:
        return LocalLauncher().end_leftovers(study_tag)


def bench(launcher: Launcher | None = None) -> Bench:
    agent = Path(paceline_agent.__file__).parent
    return Bench(launcher or LocalLauncher(), sys.executable, 1, agent, str(agent.parent), SystemClock())


def trial(folder: Path, script: str, *args: str, workers: int = 2, **asked: Any) -> TrialResult:
    """One launch of tests/scripts/SCRIPT (or `-m module`) with these arguments."""
    kind, name = ("module", script[3:]) if script.startswith("-m ") else ("script", str(SCRIPTS / script))
    start, launcher = asked.pop("start", "torchrun"), asked.pop("launcher", None)
    study = Study(
        Workload(kind, name, args, start=start),
        workers=(workers,),
        repeats=1,
        **{"steps": 20, "warmup": 6, "timeout_s": 120.0, **asked},
    )
    return run_trial(
        StudyFolder(folder / "study"),
        study,
        plan_study(study).trials[0],
        bench=bench(launcher),
        stepped=lambda beats: None,
    )


def measured(
    folder: Path, script: str, *args: str, workers: int = 2, **asked: Any
) -> tuple[TrialResult, Split]:
    """The same, which must have gone well, and its split."""
    result = trial(folder, script, *args, workers=workers, **asked)
    assert result.state == "ok", f"{result.state}: {result.reason}\n{result.log_tail}"
    parts = split(result, warmup=asked.get("warmup", 6), steps=asked.get("steps", 20))
    assert parts is not None
    return result, parts


def warm_parts(folder: Path, script: str, *args: str, workers: int = 2, steps: int = 12) -> Split:
    """The split of a launch by a warm process, in which no agent stopped measuring."""
    result, parts = measured(
        folder, script, *args, workers=workers, steps=steps, warmup=6, launcher=WarmLauncher()
    )
    assert not any(worker.manifest["problems"] for worker in result.workers)
    return parts


def assert_agent_changes_no_weight(folder: Path, *script: str, workers: int = 2) -> None:
    """Run the script, which saves its weights, bare and watched: they must be equal to the last bit."""
    weights = {}
    for name, before in (("bare", ()), ("watched", ("-m", "paceline_agent"))):
        place = folder / name
        place.mkdir()
        order = {"dir": str(place), "steps": 4, "warmup": 3, "profile": 2, "end": False, "workers": workers}
        more = {"PACELINE_TRIAL": json.dumps(order), "PYTHONPATH": str(SOURCE)} if before else {}
        command = (*before, str(SCRIPTS / script[0]), *script[1:], "--steps", "14", "--save", str(place))
        for code, output in run_ranks(workers, *command, **more):
            assert code == 0, output
        weights[name] = [torch.load(place / f"weights-{rank}.pt") for rank in range(workers)]
    assert (folder / "watched" / "worker-0.jsonl").exists()
    for bare, watched in zip(weights["bare"], weights["watched"], strict=True):
        assert bare.keys() == watched.keys()
        assert all(value.numel() and torch.equal(value, watched[name]) for name, value in bare.items())


def run_points(folder: Path, study: Study, launcher: Launcher | None = None) -> tuple[TrialResult, ...]:
    """All trials of a study, as the desk runs them; each must have gone well."""
    from paceline.plan.trials import plan_study
    from paceline.run.study import Silent, run_study

    home = StudyFolder(folder / "study")
    results = run_study(home, study, plan_study(study), bench=bench(launcher), listener=Silent()).results
    for result in results:
        assert result.state == "ok", f"{result.trial.id} {result.state}: {result.reason}\n{result.log_tail}"
    return results
