"""Real probes: two workers over gloo, kept with a study and used by its projections; a shaped link gives its rate."""

import json
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from paceline.analysis.json_file import analysis_data, analysis_from
from paceline.cli.main import exit_code
from paceline.cli.text.probe import probe_lines
from paceline.core.errors import NothingMeasured, StudyError
from paceline.launch.cgroup import root_group
from paceline.launch.command import Rendezvous
from paceline.launch.interpreter import package_folder
from paceline.launch.local import LocalLauncher
from paceline.launch.nodes.route import free_port
from paceline.launch.probe import probe_command
from paceline.launch.replay import ReplayLaunch
from paceline.links.fit import link_probes
from paceline.links.nccl import read_nccl_tests
from paceline.links.probe import LARGEST_BYTES, exchanged_bytes, probe_from, sweep_sizes
from paceline.records import Analysis, DeviceProbe, DeviceRate, Estimate, Point, Probe, ProbeTime
from paceline.report.charts.links import link_table
from paceline.run.clock import SystemClock
from paceline.run.probe import ProbeBench, ProbeOrder, run_probe
from paceline.source.probes import brought_together, probed_in
from paceline.store.analysis_schema import AnalysisFile
from paceline.store.paths import StudyFolder
from paceline.store.probe_files import read_probe, read_probes, store_nccl_tests
from paceline.testbed.blueprint import lab_of
from paceline.testbed.launcher import LabLauncher, rendezvous_in
from paceline.testbed.owner import new_name, opened
from paceline_agent.probe.sweep import in_memory
from tests.links.test_nccl import WHOLE
from tests.support.desk import desk, processes_of, started_desk
from tests.support.report_sample import told
from tests.support.samples import result, sample, worker
from tests.support.slurm_cluster import absent, cluster
from tests.testbed.test_lab import why_not

RECORDED = Path(__file__).parents[1] / "recorded" / "mnist-1-2"


def bench(launcher, **more):
    return ProbeBench(
        launcher, sys.executable, package_folder("paceline_agent"), SystemClock(), "probe-test:", **more
    )


# ---------------------------------------------------------------- what is asked and what was written


@pytest.mark.parametrize("largest", [1, 5_000, 1_000_000, LARGEST_BYTES, 10**11])
def test_sizes_grow_by_one_factor_from_1_kb_to_the_largest(largest):
    sizes = sweep_sizes(largest)
    assert sizes[0] == 1024
    assert sizes[-1] == pytest.approx(max(largest, 4096), abs=512)
    assert list(sizes) == sorted(set(sizes))
    assert len(sizes) <= 12


def test_the_bytes_of_a_step_are_the_most_that_several_workers_exchanged():
    alone = result([worker(0, [sample(2, 0.1, exchanged_bytes=9000)], 1)], point=Point("w1", 1))
    pair = result([worker(r, [sample(2, 0.1, exchanged_bytes=5000)]) for r in (0, 1)], point=Point("w2", 2))
    blind = result([worker(r, [sample(2, 0.1, exchanged_bytes=None)]) for r in (0, 1)], point=Point("w2", 2))
    assert exchanged_bytes([alone, pair]) == 5000
    assert exchanged_bytes([alone, blind]) is None


def test_a_probe_is_one_command_for_every_launcher():
    command = probe_command(
        "/x",
        (1024,),
        workers=4,
        nodes=2,
        python="py",
        tag="t",
        environment={},
        rendezvous=Rendezvous("h:1", "id"),
    )
    assert command.argv[:3] == ("py", "-m", "torch.distributed.run")
    assert command.argv[-2:] == ("-m", "paceline_agent.probe")
    assert command.argv[3:5] == ("--nnodes", "2")
    assert json.loads(command.environment["PACELINE_TRIAL"])["dir"] == "/x"
    assert command.environment["PYTHONPATH"] == "/x/agent"


HEADER = '{"record": "header", "format": 1, "workers": 2, "nodes": 1}'
ROW = (
    '{"record": "row", "backend": "gloo", "op": "all_reduce", "bytes": 8, "repeat": 0, "seconds": [0.1, 0.3]}'
)


def test_a_collective_takes_as_long_as_its_slowest_worker():
    assert probe_from([HEADER, ROW]).times[0].seconds == 0.3


@pytest.mark.parametrize(
    ("places", "cores_s"),
    [
        ([("a", 2, None), ("b", 8, None)], 0.05),  # 0.1 s of 2 cores, 0.3 s of 8
        ([("a", 2, 0.5), ("b", 8, None)], 0.2),  # a quota leaves half a core
        ([("a", 2, None), ("a", 2, None)], 0.2),  # both on one node
        ([("a", 2, None)], None),
        ([("a", None, None), ("b", 8, None)], None),
    ],
)
def test_an_exchange_takes_what_it_takes_of_the_busiest_node(places, cores_s):
    lines = [
        json.dumps({"record": "worker", "rank": rank, "node": node, "cpus": cpus, "cpu_quota": quota})
        for rank, (node, cpus, quota) in enumerate(places)
    ]
    spent = ROW.replace("[0.1, 0.3]", '[0.1, 0.3], "cpu_s": [0.1, 0.3]')
    assert probe_from([HEADER, *lines, spent]).times[0].cores_s == pytest.approx(cores_s)
    assert probe_from([HEADER, *lines, ROW]).times[0].cores_s is None


BESIDE = (
    '{"record": "beside", "backend": "gloo", "bytes": 8, "repeat": 3, "waiting": [1, 3], "computing": [2, 6]}'
)


def test_an_exchange_beside_computing_counts_as_its_workers_see_it_on_average():
    (found,) = probe_from([HEADER, BESIDE]).beside
    assert (found.size_bytes, found.repeat, found.waiting_s, found.computing_s) == (8, 3, 2.0, 4.0)
    with pytest.raises(StudyError):
        probe_from([HEADER, BESIDE.replace("[2, 6]", "[]")])


def test_a_last_line_that_was_cut_off_is_passed_over():
    assert len(probe_from([HEADER, ROW, ROW[:40]]).times) == 1


@pytest.mark.parametrize(
    "lines",
    [[], ["{}"], ["nonsense"], [HEADER.replace(": 1,", ": 9,")], [HEADER, ROW.replace("[0.1, 0.3]", "[]")]],
)
def test_what_is_no_probe_is_refused(lines):
    with pytest.raises(StudyError):
        probe_from(lines)


def test_absent_missing_and_left_out_are_said():
    said = [
        '{"record": "absent", "backend": "nccl", "reason": "there is no CUDA device"}',
        '{"record": "missing", "backend": "gloo", "op": "reduce_scatter", "reason": "not there"}',
        '{"record": "cut", "backend": "gloo", "bytes": 2000000}',
        '{"record": "cut", "backend": "nccl", "bytes": 56000000000, "why": "memory"}',
    ]
    notes = probe_from([HEADER, *said]).notes
    assert [
        word in note for word, note in zip(("CUDA", "reduce_scatter", "2 MB", "memory"), notes, strict=True)
    ] == [True] * 4


@pytest.mark.parametrize(("room", "fit"), [(1e12, 3), (12_000, 2), (11_999, 1), (0, 1)])
def test_a_sweep_leaves_out_what_three_buffers_of_do_not_fit_into_memory(room, fit):
    """Elements of four bytes: 1000 of them take 12 kB three times over."""
    counts, cut = in_memory([10, 1000, 100_000], room)
    assert counts == [10, 1000, 100_000][:fit]
    assert [record["why"] for record in cut] == ["memory"] * (fit < 3)


@pytest.mark.parametrize(("cpus", "said"), [(1, True), (2, False), (64, False)])
def test_more_workers_than_cores_make_the_latency_that_of_the_cores(cpus, said):
    worker_line = f'{{"record": "worker", "rank": 0, "cpus": {cpus}}}'
    assert any("that of the cores" in n for n in probe_from([HEADER, worker_line]).notes) is said


def test_links_and_devices_survive_analysis_json_and_keep_to_its_schema():
    found = brought_together([read_nccl_tests(WHOLE)])
    device = DeviceProbe(
        0, "cuda", "NVIDIA H200", (DeviceRate("copy", Estimate(4e12), 4.8e12),), "data sheet"
    )
    analysis = Analysis(told("v"), (), (), links=found.links, devices=(device,))
    data = json.loads(json.dumps(analysis_data(analysis)))
    assert analysis_from(data) == analysis
    assert AnalysisFile.model_validate(data)


def test_a_probe_that_never_started_says_what_the_launcher_said(tmp_path):
    class Broken:
        def start(self, command, output):
            output.write(b"Traceback\nRuntimeError: no route to host\n")
            output.flush()
            return ReplayLaunch(1)

        def end_leftovers(self, tag):
            return 0

    with pytest.raises(NothingMeasured, match="no route to host"):
        run_probe(tmp_path, ProbeOrder(2, (1024, 4096)), bench=bench(Broken()))
    assert read_probes(tmp_path) == ()


# ---------------------------------------------------------------- a real one, kept with a study


@pytest.fixture(scope="module")
def probed_study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("probed") / "study"
    shutil.copytree(RECORDED, folder)
    (folder.parent / "c.toml").write_text("[cluster]\nworkers_per_node = 8\n")
    asked = ("--backend", "gloo,nccl", "--seconds", "3s", "--spec", "inside=10gbit", "--json")
    done = desk("probe", folder, *asked, cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


def test_two_workers_on_this_machine_have_a_link(probed_study):
    folder, data = probed_study
    (link,) = data["links"]
    assert (link["link"], link["backend"], link["workers"], link["nodes"]) == ("inside", "gloo", 2, 1)
    assert 1e6 < link["bytes_per_s"]["value"] < 1e11
    assert 0 < link["latency_s"]["value"] < 0.1
    assert link["unidentified"][0] == "fixed_s"
    assert {row["op"] for row in link["rows"]} == {"all_reduce", "all_gather", "reduce_scatter"}
    assert all(row["seconds"]["n"] >= 5 for row in link["rows"])
    assert 1e-11 < link["cores_s_per_byte"] < 1e-7
    assert link["busy_hop_s"]["n"] >= 4
    assert 0 <= link["busy_hop_s"]["value"] < 0.1
    assert processes_of(folder) == []


def test_the_sweep_ends_at_twice_what_the_study_exchanges(probed_study):
    folder, data = probed_study
    (link,) = data["links"]
    seen = json.loads((folder / "probe" / "n1-w2" / "probe.jsonl").read_text().splitlines()[0])["order"][
        "sizes"
    ][-1]
    largest = max(row["size_bytes"] for row in link["rows"])
    assert largest == pytest.approx(seen, rel=0.01)
    assert seen == pytest.approx(2 * 1_685_544, rel=0.3)


def test_devices_are_measured_and_a_cpu_has_no_ratio(probed_study):
    _, data = probed_study
    assert [device["worker"] for device in data["devices"]] == [0, 1]
    for device in data["devices"]:
        rates = {rate["quantity"]: rate for rate in device["rates"]}
        assert {"float32", "copy"} <= set(rates)
        assert all(rate["per_s"]["value"] > 1e6 and rate["spec_per_s"] is None for rate in rates.values())


def test_workers_compute_at_once_and_what_they_differ_by_is_told(probed_study):
    folder, data = probed_study
    lines = (folder / "probe" / "n1-w2" / "probe.jsonl").read_text().splitlines()
    (record,) = [r for r in map(json.loads, lines) if r["record"] == "steady"]
    assert len(record["seconds"]) == 2
    assert all(sum(pieces) == pytest.approx(0.75, rel=0.5) for pieces in record["seconds"])
    counts = {len(pieces) for pieces in record["seconds"]}
    assert len(counts) == 1  # all wait for all after every burst
    assert counts.pop() % record["pieces"] == 0
    assert [(row["workers"], row["nodes"], row["step_s"]) for row in data["steady"]] == [(2, 1, 0.05)]
    assert all(0 <= row["at_once_ratio"] < 2 for row in data["steady"])


def test_a_backend_that_is_absent_is_said_and_the_rest_goes_on(probed_study):
    _, data = probed_study
    assert any(note.startswith("nccl was not probed") for note in data["notes"])


def test_the_study_projects_with_its_probe_and_says_so(probed_study):
    folder, data = probed_study
    done = desk("project", folder, "--workers", "4", "--cluster", "c.toml", "--json", cwd=folder.parent)
    analysis = json.loads(done.stdout)
    assert "probed over gloo at 2 workers" in analysis["fit"]["explanation"]
    assert "at the same moment (in this training)" in analysis["fit"]["explanation"]
    assert "links inside a node: probed over gloo" in analysis["projections"][0]["explanation"]
    assert analysis["links"] == data["links"]
    told = ["link-spec"] if "bytes_per_s" not in data["links"][0]["unidentified"] else []
    assert [f["id"] for f in analysis["findings"] if f["id"].startswith("link")] == told


def test_a_second_probe_takes_the_place_of_the_first_and_another_count_stands_beside_it(
    probed_study, tmp_path
):
    folder, _ = probed_study
    root = tmp_path / "study"
    shutil.copytree(folder, root)
    store_nccl_tests(WHOLE, root / "probe" / "read-a", {"source": "a.txt", "workers": None, "specs": {}})
    store_nccl_tests(WHOLE, root / "probe" / "read-a", {"source": "a.txt", "workers": None, "specs": {}})
    links = link_probes(read_probes(root))
    assert [(link.link, link.backend, link.source) for link in links] == [
        ("inside", "gloo", "paceline probe"),
        ("between", "nccl", "a.txt"),
    ]


@pytest.mark.parametrize("name", ["probe.json", "probe.jsonl"])
def test_a_damaged_probe_is_a_doubt_and_costs_the_study_nothing(probed_study, tmp_path, name):
    root = tmp_path / "study"
    shutil.copytree(probed_study[0], root)
    (root / "probe" / "n1-w2" / name).write_text("{")
    (doubt,) = probed_in(StudyFolder(root)).findings
    assert (doubt.id, doubt.level) == ("probe-damaged", "doubt")
    assert "n1-w2" in doubt.hint


def test_output_of_nccl_tests_is_read_instead(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out.txt").write_text(WHOLE)
    assert exit_code(["probe", "--read", "out.txt", "--spec", "between=infiniband@400gbit"]) == 0
    said = capsys.readouterr().out
    assert "Links between nodes, nccl, 2 workers on 2 nodes (out.txt)" in said
    assert "62% of the 50.0 GB/s that their specification promises" in said


def test_a_table_is_projected_with_a_probe_that_is_kept_elsewhere(tmp_path, monkeypatch, capsys):
    """One worker was measured: without the probe nothing is said about two nodes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out.txt").write_text(WHOLE)
    (tmp_path / "times.csv").write_text("workers,step_s,per_worker_batch\n1,0.1,32\n")
    (tmp_path / "c.toml").write_text("[cluster]\nworkers_per_node = 1\ngradient_bytes = 40000000\n")
    project = ["project", "times.csv", "--workers", "2", "--cluster", "c.toml", "--json"]
    assert exit_code(["probe", "--read", "out.txt", "--out", "links"]) == 0
    capsys.readouterr()
    assert exit_code(project) == 0
    assert json.loads(capsys.readouterr().out)["refusals"][0]["rule"] == "link-class"
    assert exit_code([*project, "--probe", "links"]) == 0
    analysis = json.loads(capsys.readouterr().out)
    assert "probed over nccl at 2 workers, out.txt" in analysis["projections"][0]["explanation"]
    assert [link["backend"] for link in analysis["links"]] == ["nccl"]
    assert exit_code([*project, "--probe", "nowhere"]) == 1
    assert "holds no probe" in capsys.readouterr().err


def test_where_no_link_could_be_measured_the_exit_code_says_so(monkeypatch, capsys):
    nothing = Probe((), notes=("nccl was not probed: there is no CUDA device",))
    monkeypatch.setattr("paceline.cli.verbs.probe.run_probe", lambda *args, **options: nothing)
    assert exit_code(["probe", "--backend", "nccl"]) == 2
    assert "there is no CUDA device" in capsys.readouterr().err


def test_nodes_that_the_text_does_not_tell_are_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out.txt").write_text(WHOLE.replace("node-b", "node-a"))
    assert exit_code(["probe", "--read", "out.txt", "--nodes", "2"]) == 0
    assert "Links between nodes, nccl, 2 workers on 2 nodes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("--workers", "1", "--no-device"), "one worker has no link"),
        (("--workers", "2", "--nodes", "2"), "both say how many workers"),
        (("--backend", "mpi"), "mpi"),
        (("--spec", "fast"), "not a specification"),
        (("--read", "absent.txt"), "cannot be read"),
        (("nowhere",), "not a study folder"),
    ],
)
def test_what_cannot_be_probed_is_refused_before_anything_starts(tmp_path, monkeypatch, capsys, asked, said):
    monkeypatch.chdir(tmp_path)
    assert exit_code(["probe", *asked]) == 1
    told = capsys.readouterr().err
    assert said in told
    assert "  try: " in told
    assert not list(tmp_path.iterdir())


def test_the_device_of_one_worker_is_probed_and_its_missing_link_is_said(tmp_path, monkeypatch, capsys):
    asked = []

    def alone(root, order, *, bench, specs):
        asked.append(order)
        worker_line = (
            '{"record": "worker", "rank": 0, "cpus": 2, "device": "cpu", "device_name": "EPYC", '
            '"matmul": {"float32": {"side": 256, "flop_per_s": [1e10, 1.1e10]}}, "copy_bytes_per_s": [5e9]}'
        )
        return probe_from([HEADER.replace('"workers": 2', '"workers": 1'), worker_line])

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("paceline.cli.verbs.probe.run_probe", alone)
    assert exit_code(["probe", "--workers", "1"]) == 0
    said = capsys.readouterr()
    assert (asked[0].workers, asked[0].backends, asked[0].device) == (1, (), True)
    assert "probing the device of one worker" in said.err
    assert "one worker has no link to probe: its device was measured" in said.out
    assert "10.5 GFLOP/s" in said.out


def test_what_was_known_of_the_nodes_and_how_it_ended_stays_with_a_probe(tmp_path):
    """A node was lost after three passes: they are kept, and so is what happened."""
    rows = [
        json.dumps(
            {
                "record": "row",
                "backend": "gloo",
                "op": "all_reduce",
                "bytes": size,
                "repeat": i,
                "seconds": [size / 1e8],
            }
        )
        for i in range(3)
        for size in (1024, 65_536, 1_048_576)
    ]

    class Cut:
        def start(self, command, output):
            folder = Path(command.trial_dir)
            (folder / "probe.jsonl").write_text(
                "\n".join([HEADER.replace('"nodes": 1', '"nodes": 2'), *rows])
            )
            (folder / "lost-1.json").write_text('{"reason": "node 1 (gpu07) was lost: it left"}\n')
            return ReplayLaunch(1)

        def end_leftovers(self, tag):
            return 0

    made = run_probe(
        tmp_path,
        ProbeOrder(2, (1024, 4096), nodes=2),
        bench=bench(
            Cut(), notes=("2 nodes are 1 machine",), rendezvous=lambda trial: Rendezvous("h:1", "id")
        ),
    )
    assert made.notes == (
        "2 nodes are 1 machine",
        "the probe was cut short: node 1 (gpu07) was lost: it left",
    )
    assert read_probes(tmp_path) == (made,)
    assert len(made.times) == 9


def test_a_bandwidth_that_latency_hides_is_at_least_a_share_of_its_specification():
    """Times that hardly grow: 1 MB in 1.05 ms where 1 kB takes 1 ms."""
    times = {1024: 1e-3, 262_144: 1.01e-3, 1_048_576: 1.05e-3}
    rows = tuple(ProbeTime("gloo", "all_reduce", 2, 1, n, i, t) for n, t in times.items() for i in range(5))
    found = brought_together([Probe(rows, specs=(("inside", "10gbit"),))])
    text = "\n".join(probe_lines(found.links, ()))
    assert "bandwidth at least 999 MB/s" in text
    assert "at least 80% of it arrives" in text
    assert link_table(Analysis(told("v"), (), (), links=found.links)).rows[0][-3] == "at least 999 MB/s"


# ---------------------------------------------------------------- a link whose rate is known


@pytest.mark.root
@pytest.mark.alone
def test_a_shaped_link_between_two_hosts_gives_its_rate(tmp_path):
    """40 Mbit/s is 5 MB/s, of which Ethernet, IP and TCP headers take 66 of every 1514 bytes: 4.78 MB/s."""
    if reason := why_not():
        pytest.skip(f"a shaped link {reason}")
    lab = lab_of(new_name(), hosts=2, link="40mbit")
    with opened(lab):
        order = ProbeOrder(2, sweep_sizes(1_000_000), nodes=2, seconds=6.0, device=False)
        run_probe(tmp_path, order, bench=bench(LabLauncher(lab), rendezvous=rendezvous_in(lab)))
    (link,) = link_probes([read_probe(tmp_path / "probe" / "n2-w2")])
    assert (link.link, link.nodes) == ("between", 2)
    assert link.bytes_per_s.value == pytest.approx(5e6 * 1448 / 1514, rel=0.10)
    assert 1e-6 < link.latency_s.value < 0.02


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.alone
@pytest.mark.skipif(root_group() is None, reason="no cgroup with a CPU quota")
def test_hosts_that_compute_on_a_quota_make_an_exchange_wait_for_them(tmp_path):
    """A quarter of a core is 1.3 ms of every 5.3: who computes stands still for the rest, and so does who exchanges."""
    if reason := why_not():
        pytest.skip(f"hosts on a quota {reason}")
    longer_s = {}
    for cpu in (None, "25%"):
        lab = lab_of(new_name(), hosts=2, link="200mbit", cpu=cpu)
        folder = tmp_path / str(cpu)
        with opened(lab):
            order = ProbeOrder(2, sweep_sizes(1_000_000), nodes=2, seconds=12.0)
            run_probe(folder, order, bench=bench(LabLauncher(lab), rendezvous=rendezvous_in(lab)))
        (link,) = link_probes(read_probes(folder))
        longer_s[cpu] = link.busy_hop_s.value
        assert "computing makes a hop" in "\n".join(probe_lines([link], ()))
    assert 0.004 < longer_s["25%"] < 0.04
    assert longer_s[None] < longer_s["25%"] / 2


@pytest.mark.slow
def test_two_counts_on_this_machine_tell_the_fixed_cost(tmp_path):
    for workers in (2, 3):
        run_probe(
            tmp_path,
            ProbeOrder(workers, sweep_sizes(4_000_000), seconds=4.0, device=False),
            bench=bench(LocalLauncher()),
        )
    (link,) = link_probes(read_probes(tmp_path))
    assert link.fixed_s is not None
    assert "fixed_s" not in link.unidentified


@pytest.mark.slow
@pytest.mark.skipif(absent() is not None, reason=f"no Slurm here: {absent()}")
def test_two_nodes_of_an_allocation_are_probed_by_steps_of_its_job(tmp_path):
    asked = f"probe --nodes 2 --bytes 2MB --seconds 3 --no-device --out {tmp_path / 'kept'}"
    (tmp_path / "slurm").mkdir()
    with cluster(tmp_path / "slurm") as made:
        wrap = f"{sys.executable} -m paceline {asked}"
        made.call("sbatch", "--wait", "-N2", "-n2", "-o", tmp_path / "log", "--wrap", wrap)
    assert "probing 2 workers on 2 nodes over gloo" in (tmp_path / "log").read_text()
    (link,) = link_probes(read_probes(tmp_path / "kept"))
    assert (link.link, link.workers, link.nodes) == ("between", 2, 2)


@pytest.mark.slow
def test_a_node_that_joins_is_probed(tmp_path):
    token = f"abcdef0123456789@127.0.0.1:{free_port('127.0.0.1')}"
    asked = (
        "probe",
        "--nodes",
        "2",
        "--bytes",
        "2MB",
        "--seconds",
        "3",
        "--no-device",
        "--out",
        tmp_path / "kept",
    )
    desk_here = started_desk(*asked, "--join", token, cwd=tmp_path)
    try:
        joined = desk("join", token, cwd=tmp_path)
        assert joined.returncode == 0, joined.stderr
        assert desk_here.wait(timeout=60) == 0
    finally:
        desk_here.kill()
        desk_here.wait()
    (link,) = link_probes(read_probes(tmp_path / "kept"))
    assert (link.link, link.workers, link.nodes) == ("between", 2, 2)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_probe_that_is_stopped_leaves_no_process(tmp_path, number):
    probing = started_desk("probe", "--workers", "2", "--out", tmp_path / "kept", cwd=tmp_path)
    deadline = time.monotonic() + 120
    begun = tmp_path / "kept" / "probe" / ".n1-w2.part" / "probe.jsonl"
    while not (begun.exists() and begun.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.2)
    probing.send_signal(number)
    assert probing.wait(timeout=60) == (130 if number == signal.SIGTERM else -number)
    deadline = time.monotonic() + 30
    while processes_of(tmp_path / "kept") and time.monotonic() < deadline:
        time.sleep(0.2)
    assert processes_of(tmp_path / "kept") == []
    assert read_probes(tmp_path / "kept") == ()
