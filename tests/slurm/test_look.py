"""The look at the nodes of an allocation, with stand-ins for srun and scontrol: studies and probes see the same."""

import os
import sys
from dataclasses import replace

import pytest

from paceline.cli.measure import bench_of
from paceline.cli.options.probe import Asked, orders_of
from paceline.cli.ready import asked_of
from paceline.cli.slurm.study import slurm_bench
from paceline.cli.verbs.probe import probe
from paceline.core.errors import PacelineError, UsageError
from paceline.launch.slurm.launcher import SlurmLauncher
from paceline.plan.trials import plan_study
from paceline.records import Allocation, Study, Workload
from paceline.store.paths import StudyFolder
from paceline.store.study_file import write_study
from tests.support.desk import ROOT

# runs what follows its own options once for every node; a node's own settings are in node-I.env
SRUN = f"""#!{sys.executable}
import pathlib, subprocess, sys
words = sys.argv[sys.argv.index({sys.executable!r}):]
nodes = int(sys.argv[sys.argv.index("--nodes") + 1])
tasks = []
for node in range(nodes):
    own = pathlib.Path(__file__).with_name(f"node-{{node}}.env").read_text().split()
    place = [f"SLURM_NODEID={{node}}", f"SLURMD_NODENAME=n{{node + 1}}"]
    tasks.append(subprocess.Popen(["env", *place, *own, *words]))
sys.exit(max(task.wait() for task in tasks))
"""
SCONTROL = """#!/bin/sh
case "$2" in
hostnames) echo n1; echo n2 ;;
node) echo 'NodeName=n1 State=IDLE NodeAddr=127.0.0.1' ;;
esac
"""


@pytest.fixture
def allocation(tmp_path, monkeypatch):
    """Two nodes of a job, as far as its environment and commands tell."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    for node in (0, 1):
        (tools / f"node-{node}.env").write_text("")
    monkeypatch.setenv("PATH", str(tools), prepend=os.pathsep)
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    return tools


def test_a_module_that_is_not_the_same_on_every_node_stops_a_study_on_slurm(allocation, tmp_path, capsys):
    for node in (0, 1):
        package = tmp_path / str(node) / "pkg"
        package.mkdir(parents=True)
        (package / "train.py").write_text(f"print({node})\n")
        search = f"PYTHONPATH={ROOT / 'src'}:{package.parent}"
        (allocation / f"node-{node}.env").write_text(search)
    study = Study(Workload("module", "pkg.train"), nodes=(1, 2), workers_per_node=(1,), workers=(1, 2), threads=1,
                  directory=str(tmp_path), slurm=Allocation())  # fmt: skip
    folder = StudyFolder(tmp_path / "s")
    with pytest.raises(
        PacelineError, match="nothing was started: the module is not the same on every node"
    ) as ended:
        slurm_bench(folder, study, plan_study(study), bench_of(study, threads=1))
    assert "that all nodes share" in ended.value.hint
    assert "job 12: n1 (127.0.0.1 over lo, 1 core), n2" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["script", "module", "workload"])
def test_nodes_are_asked_about_what_is_studied(kind):
    study = Study(Workload(kind, "mnist"), workers=(1,), directory="/w")
    subject = asked_of(study, replace(bench_of(study, threads=1), python="py")).subject
    asked = {"script": ("/w/mnist", None), "module": (None, "mnist"), "workload": (None, None)}
    assert (subject.script, subject.module) == asked[kind]
    assert subject.directory == "/w"


def test_a_probe_in_an_allocation_looks_at_its_nodes_with_the_words_of_a_study(allocation, capsys):
    with pytest.raises(
        PacelineError, match=r"nothing was started: .* /bin/false could not be asked"
    ) as ended:
        probe(nodes="2", python="/bin/false")
    assert "node 0 (n1)" in ended.value.message
    assert "--load-module or --prologue" in ended.value.hint
    assert "job 12: n1 (127.0.0.1 over lo, 1 core), n2 (127.0.0.1 over lo, 1 core)" in capsys.readouterr().err


def test_an_allocation_of_fewer_nodes_than_are_to_be_probed_is_refused(allocation):
    with pytest.raises(UsageError, match="job 12 has 2 nodes, and 3 are to be probed"):
        probe(nodes="3")


def test_a_study_on_slurm_is_not_probed_on_the_login_node(tmp_path, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    write_study(
        tmp_path / "study.toml", Study(Workload("workload", "mnist"), workers=(2,), slurm=Allocation())
    )
    with pytest.raises(UsageError, match="takes its nodes from Slurm, and this is no allocation") as ended:
        probe(tmp_path)
    assert ended.value.hint == f"salloc --nodes 1 paceline probe {tmp_path}"


def test_steps_have_the_desks_environment_where_a_job_was_given_none():
    assert "--export=ALL" in SlurmLauncher("12", ("n1",), "10.0.0.1").srun(1, name="trial")


def test_threads_of_a_probe_are_counted_on_the_nodes_and_not_where_salloc_was_typed(allocation, monkeypatch):
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "6")
    asked = Asked(None, "2", 2, None, None, "1s", False, None)
    assert [order.threads for order in orders_of(asked, None, ())] == [3]
