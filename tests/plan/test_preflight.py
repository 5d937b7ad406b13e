"""A look at the nodes: what stops a study before it starts, what is doubted, and the fix that is named."""

import os
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.analysis.study import study_analysis
from paceline.check.backends import refused_points
from paceline.cli.ready import refuse_no_script
from paceline.core.errors import UsageError
from paceline.launch.facts import Subject, facts_of_this_node
from paceline.launch.nodes.route import way_at
from paceline.plan.preflight import Facts, preflight_findings
from paceline.plan.trials import points_of
from paceline.records import Allocation, Finding, Study, Workload
from paceline.store.paths import StudyFolder
from paceline.store.preflight_file import preflight_findings_of, write_preflight
from tests.support.desk import SCRIPTS, desk

STUDY = Study(Workload("script", "train.py"), nodes=(1, 2), workers_per_node=(2,), workers=(2, 4), threads=1)
DESK = Facts(
    node=0, host="desk", machine="a", address="10.0.0.1", mtu_bytes=1500, python="3.11.4", torch="2.13.0",
    cores=8, shm_free_bytes=2**33, script="/w/train.py", script_sha256="ab12", paceline="1",
)  # fmt: skip
NODE = replace(DESK, node=1, host="gpu07", machine="b", address="10.0.0.2", skew_s=0.01, skew_error_s=0.001)


def found(*nodes, study=STUDY):
    return {finding.id: finding for finding in preflight_findings(study, nodes)}


def test_equal_nodes_are_beyond_doubt():
    assert found(DESK, NODE) == {}
    assert found(DESK) == {}


@pytest.mark.parametrize(
    ("change", "kind", "says"),
    [
        ({"torch": "2.12.1"}, "versions-differ", "2.12.1 on node 1 (gpu07)"),
        ({"python": "3.12.1"}, "versions-differ", "3.12 on node 1 (gpu07)"),
        ({"torch": None}, "torch-missing", "node 1 (gpu07) has no torch"),
        ({"script_sha256": "cd34"}, "script-differs", "cd34 on node 1 (gpu07)"),
        ({"script_sha256": None}, "script-missing", "node 1 (gpu07) has no file /w/train.py"),
        (
            {"unreachable": (0,)},
            "port-unreachable",
            "cannot reach a port that node 0 (desk) opened at 10.0.0.1",
        ),
    ],
)
def test_what_would_fail_or_mix_two_trainings_is_void(change, kind, says):
    finding = found(DESK, replace(NODE, **change))[kind]
    assert finding.level == "void"
    assert says in finding.message
    assert finding.hint


@pytest.mark.parametrize(
    ("change", "kind", "says"),
    [
        ({"beside": (("net.py", "1"),)}, "code-differs", "1 Python files beside the script"),
        ({"mtu_bytes": 9000}, "mtu-differs", "9000 on node 1 (gpu07)"),
        ({"machine": "a"}, "one-machine", "2 nodes are 1 machine"),
        ({"cores": 4}, "cores-differ", "4 on node 1 (gpu07)"),
        ({"cores": 1}, "cores-too-few", "up to 2 workers with 1 thread each (OMP_NUM_THREADS) share 1 core,"),
        ({"devices": ("H100",)}, "device-shared", "2 workers on 1 CUDA device"),
        ({"shm_free_bytes": 2**26}, "shm-small", "in /dev/shm"),
        ({"environment": (("NCCL_DEBUG", "INFO"),)}, "settings-differ", "not set here and INFO there"),
        ({"skew_s": -30.0}, "clock-skew", "is 30.0 s behind the desk's"),
    ],
)
def test_what_changes_the_meaning_of_figures_is_doubted(change, kind, says):
    finding = found(DESK, replace(NODE, **change))[kind]
    assert finding.level == "doubt"
    assert says in finding.message


def test_nodes_that_reach_the_desk_over_two_networks_are_doubted():
    near = replace(NODE, desk_at="10.0.0.1")
    far = replace(NODE, node=2, machine="c", desk_at="10.1.0.1")
    finding = found(DESK, near, far)["networks-differ"]
    assert (finding.level, "10.1.0.1 on node 2" in finding.message) == ("doubt", True)
    assert found(DESK, near, replace(far, desk_at="10.0.0.1")) == {}


def test_a_number_of_threads_that_a_node_set_is_not_used_and_that_is_said():
    finding = found(DESK, replace(NODE, environment=(("OMP_NUM_THREADS", "16"),)))["threads-set"]
    assert (finding.level, "OMP_NUM_THREADS=16 of node 1 (gpu07) is not used" in finding.message) == (
        "note",
        True,
    )
    assert found(DESK, replace(NODE, environment=(("OMP_NUM_THREADS", "1"),))) == {}


def test_a_skew_within_its_own_error_is_no_skew():
    assert found(DESK, replace(NODE, skew_s=3.0, skew_error_s=2.5)) == {}


def test_python_versions_that_differ_in_the_last_number_only_are_the_same():
    assert found(DESK, replace(NODE, python="3.11.9")) == {}


def test_the_interface_may_have_another_name_on_every_node():
    assert found(DESK, replace(NODE, environment=(("NCCL_SOCKET_IFNAME", "ib1"),))) == {}


@pytest.mark.parametrize(
    "name",
    [
        "NCCL_HOSTID",
        "NCCL_IB_HCA",
        "NCCL_IB_GID_INDEX",
        "GLOO_SOCKET_IFNAME",
        "NCCL_OOB_NET_IFNAME",
        "NCCL_TOPO_FILE",
        "NCCL_DEBUG_FILE",
        "UCX_NET_DEVICES",
        "TORCH_HOME",
        "TORCH_EXTENSIONS_DIR",
    ],
)
def test_what_is_a_nodes_own_by_nature_is_not_compared(name):
    one, other = (replace(facts, environment=((name, facts.host),)) for facts in (DESK, NODE))
    assert found(one, other) == {}
    assert found(DESK, other) == {}


@pytest.mark.parametrize("name", ["NCCL_ALGO", "NCCL_IB_DISABLE", "TORCH_DISTRIBUTED_DEBUG", "UCX_TLS"])
def test_what_changes_how_nodes_exchange_is_compared(name):
    finding = found(DESK, replace(NODE, environment=((name, "1"),)))["settings-differ"]
    assert f"export the same {name} on every node" in finding.hint


@pytest.mark.parametrize(
    ("workers", "threads", "cores", "hint"),
    [
        (2, 4, 4, "--threads 2, or fewer workers per node"),
        (2, 4, 1, "at most 1 worker per node with --threads 1, or more cores"),
        (4, 1, 2, "at most 2 workers per node; they have one thread each already, or more cores"),
        (1, 4, 2, "--threads 2"),
    ],
)
def test_too_few_cores_are_helped_by_what_can_still_be_changed(workers, threads, cores, hint):
    study = replace(STUDY, workers_per_node=(workers,), threads=threads)
    assert found(replace(DESK, cores=cores), study=study)["cores-too-few"].hint == hint


def test_on_slurm_nobody_is_told_to_join():
    other = replace(NODE, machine="a", torch="1", python="2.7", script_sha256="", mtu_bytes=1, cores=1, skew_s=9.0,
                    beside=(("net.py", "1"),), environment=(("NCCL_ALGO", "Tree"),), shm_free_bytes=1)  # fmt: skip
    lost = replace(NODE, node=2, torch=None, problem="no such file", devices=("H100",))
    findings = preflight_findings(replace(STUDY, slurm=Allocation()), (DESK, other, lost))
    assert {"one-machine", "versions-differ", "settings-differ", "python-unusable"} <= {
        f.id for f in findings
    }
    assert [finding.id for finding in findings if "join" in (finding.hint or "")] == []


def test_cores_are_no_matter_where_every_worker_has_a_device():
    nodes = [replace(facts, cores=1, devices=("H100", "H100")) for facts in (DESK, NODE)]
    assert found(*nodes) == {}


def test_what_preflight_found_is_read_back(tmp_path):
    doubt = Finding("clock-skew", "doubt", "late", value=2.0, threshold=1.0, hint="ntpd")
    write_preflight(StudyFolder(tmp_path), [DESK, NODE], [doubt])
    assert preflight_findings_of(StudyFolder(tmp_path)) == (doubt,)
    (tmp_path / "preflight.json").write_text("{")
    assert preflight_findings_of(StudyFolder(tmp_path)) == ()


def test_this_machine_can_be_looked_at(tmp_path):
    (tmp_path / "train.py").write_text("import net\n")
    (tmp_path / "net.py").write_text("x = 1\n")
    subject = Subject(sys.executable, str(tmp_path / "train.py"), devices=False)
    facts = facts_of_this_node(subject, node=0, way=way_at("127.0.0.1"))
    assert facts.torch is not None
    assert facts.python == ".".join(map(str, sys.version_info[:3]))
    assert facts.interface == "lo"
    assert [name for name, _ in facts.beside] == ["net.py"]
    assert facts.script_sha256 is not None
    assert facts.nccl is None  # nobody asked: torch was not imported


words = st.none() | st.text(max_size=5)
any_facts = st.builds(
    Facts, st.integers(0, 3), st.text(max_size=5), *[words] * 3, st.none() | st.integers(0, 10**5), *[words] * 3,
    st.none() | st.booleans(), st.none() | st.lists(st.text(max_size=3), max_size=3).map(tuple),
    st.integers(1, 256), st.none() | st.integers(0, 2**40), words, words,
    st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), max_size=3).map(tuple),
    st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), max_size=3).map(tuple),
    st.none() | st.floats(-1e9, 1e9), st.none() | st.floats(0, 1e9), st.lists(st.integers(0, 3), max_size=3).map(tuple),
    *[words] * 3,
)  # fmt: skip


@settings(deadline=None, max_examples=100)
@given(st.lists(any_facts, min_size=1, max_size=3), st.sampled_from(["script", "module", "workload"]))
def test_whatever_nodes_are_findings_are_whole_and_voids_come_first(nodes, kind):
    findings = preflight_findings(replace(STUDY, workload=Workload(kind, "train")), nodes)
    levels = ["void", "doubt", "note"]
    assert [levels.index(f.level) for f in findings] == sorted(levels.index(f.level) for f in findings)
    assert all(finding.message and finding.hint for finding in findings if finding.level != "note")


# ------------------------------------------------------------------ backends that a node cannot run


def refused(facts, workers=(1, 2)):
    study = replace(STUDY, nodes=(), workers_per_node=(), workers=workers, backends=("gloo", "nccl"))
    return {point: finding.message for point, finding in refused_points(points_of(study), [facts]).items()}


def test_nccl_is_refused_with_its_reason_and_gloo_goes_on():
    absent = refused(replace(DESK, nccl=False, devices=()))
    assert set(absent) == {"w1-nccl", "w2-nccl"}
    assert "built without NCCL" in absent["w1-nccl"]
    assert "has no CUDA device" in refused(replace(DESK, nccl=True, devices=()))["w2-nccl"]


@pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="NCCL may well run here")
def test_a_study_of_nccl_alone_says_why_it_cannot_start(tmp_path):
    done = desk("study", "--backend", "nccl", "--out", "s", SCRIPTS / "plain_ddp.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "nothing was started: the torch of node 0 " in done.stderr
    assert "is built without NCCL" in done.stderr
    assert not list(tmp_path.glob("s/trials/*"))


def test_two_workers_on_one_device_are_refused_and_one_is_not():
    shared = refused(replace(DESK, nccl=True, devices=("H200",)))
    assert set(shared) == {"w2-nccl"}
    assert "1 CUDA device for 2 workers" in shared["w2-nccl"]
    assert refused(replace(DESK, nccl=True, devices=("H200", "H200"))) == {}


def test_doubts_of_preflight_are_findings_of_the_study_and_voids_let_nothing_run():
    doubt = Finding("clock-skew", "doubt", "late")
    void = Finding("script-differs", "void", "other")
    cores = Finding("cores-too-few", "doubt", "few")
    findings = study_analysis(STUDY, (), {}, said=[void, doubt, cores]).findings
    assert [finding for finding in findings if finding in (doubt, void, cores)] == [doubt, cores]


def test_a_script_that_is_not_there_is_refused_with_the_one_that_was_meant(tmp_path):
    (tmp_path / "train.py").touch()
    asked = Study(Workload("script", "trian.py"), workers=(1,), directory=str(tmp_path))
    with pytest.raises(UsageError, match=r"there is no script .*trian\.py") as refusal:
        refuse_no_script(asked)
    assert "train.py, perhaps" in refusal.value.hint
    refuse_no_script(replace(asked, workload=Workload("script", "train.py")))
    refuse_no_script(replace(asked, workload=Workload("module", "trian")))
