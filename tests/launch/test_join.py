"""A real joiner and a real gate on one machine, no torch: what the look at a node sees, and what everybody is told."""

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from paceline.cli import gather
from paceline.core.errors import PacelineError
from paceline.launch import local
from paceline.launch.command import Command
from paceline.launch.facts import Subject, facts_of_this_node
from paceline.launch.inspection import Asked, inspected
from paceline.launch.local import LocalLauncher
from paceline.launch.nodes import gate as gate_module
from paceline.launch.nodes import join as join_module
from paceline.launch.nodes import route
from paceline.launch.nodes.gate import Gate, Invitation, invitation
from paceline.launch.nodes.join import Here, joined_study
from paceline.launch.nodes.wire import WireLost, node_handshake
from paceline.launch.processes import cores, tagged
from paceline.plan.preflight import preflight_findings
from paceline.records import Study, Workload
from tests.support.desk import DESK, desk, environment, started_desk
from tests.support.two_hosts import until

SCRIPT = Study(Workload("script", "train.py"), nodes=(2,), workers_per_node=(1,), workers=(2,), threads=1)
MODULE = Study(Workload("module", "pkg.train"), nodes=(2,), workers_per_node=(1,), workers=(2,), threads=1)


@pytest.fixture
def join(gate):
    """Let a node join at an address (the gate's own unless another is named): how it ended, once it has."""
    ends, threads = [], []

    def joined(host="127.0.0.1", port=None, **here):
        asked = Invitation(gate.token, host, port or gate.port)
        settings = Here(**{"python": None, "script_folder": None, **here})

        def serve():
            with contextlib.suppress(PacelineError):
                ends.append(joined_study(asked, settings, wait_s=5.0, say=lambda text: None))

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        member = gate.admit(10.0)
        assert member is not None
        return member

    joined.ends, joined.threads = ends, threads
    yield joined
    gate.close()
    for thread in threads:
        thread.join(timeout=10)


def asked(script=None, directory="/", module=None):
    return Asked(sys.executable, None if script is None else str(script), str(directory), False, module)


def found(study, facts):
    return {finding.id: finding for finding in preflight_findings(study, facts)}


# ---------------------------------------------------------------- what a look sees


def test_a_node_on_the_same_machine_is_reached_and_has_the_same_clock(join):
    here, there = inspected(asked(), [join()])
    assert (here.node, there.node) == (0, 1)
    assert abs(there.skew_s) <= there.skew_error_s + 0.5
    assert (here.unreachable, there.unreachable, here.seen_as, there.seen_as) == ((), (), None, None)
    assert there.torch == here.torch is not None


def test_a_clock_that_is_ahead_is_doubted(join, monkeypatch):
    fast = SimpleNamespace(time=lambda: time.time() + 30.0, monotonic=time.monotonic, sleep=time.sleep)
    monkeypatch.setattr(join_module, "time", fast)
    skewed = found(SCRIPT, inspected(asked(), [join()]))["clock-skew"]
    assert "30.0 s ahead of the desk's" in skewed.message
    assert "chrony" in skewed.hint


def test_a_python_that_does_not_answer_is_a_finding_and_not_a_lost_node(join, tmp_path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho libpython is missing >&2\nexit 3\n")
    broken.chmod(0o755)
    _, there = inspected(asked("/nowhere/train.py"), [join(python=str(broken))])
    void = found(SCRIPT, [facts_of_this_node(Subject(sys.executable, None, False), node=0, way=None), there])
    assert set(void) >= {"python-unusable"}
    assert "script-missing" not in void  # one thing at a time: the Python first
    assert "libpython is missing" in void["python-unusable"].message
    assert there.cores == cores()


def test_a_torch_that_cannot_be_imported_is_not_called_missing(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise OSError('libcudart.so.12: cannot open')\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    facts = facts_of_this_node(Subject(str(python), None, devices=True), node=1, way=None)
    void = found(SCRIPT, [facts, facts])
    assert "libcudart.so.12: cannot open" in void["python-unusable"].message
    assert "torch-missing" not in void


@contextlib.contextmanager
def translation(port):
    """127.0.0.2 passes on to 127.0.0.1, and what it passes on comes from 127.0.0.3: as a router that translates."""
    with socket.create_server(("127.0.0.2", 0)) as server:
        open_sockets = []

        def pass_on():
            inside, _ = server.accept()
            outside = socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.3", 0))
            open_sockets.extend((inside, outside))
            other = {inside: outside, outside: inside}
            while True:
                for end in select.select(list(other), [], [])[0]:
                    data = end.recv(1 << 16)
                    if not data:
                        return
                    other[end].sendall(data)

        thread = threading.Thread(target=pass_on)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            thread.join(timeout=10)
            for one in open_sockets:
                one.close()


def test_a_node_behind_a_translated_address_is_told_so_before_torch_hangs(gate, join):
    with translation(gate.port) as port:
        here, there = inspected(asked(), [join("127.0.0.2", port)])
        gate.close()
    assert (there.address, there.seen_as, here.seen_as) == ("127.0.0.1", "127.0.0.3", "127.0.0.2")
    void = preflight_findings(SCRIPT, [here, there])[0]
    assert (void.id, void.level) == ("address-translated", "void")
    assert "VPN" in void.hint


def test_a_script_is_looked_for_where_join_was_started(join, tmp_path, monkeypatch):
    """The desk's folder does not exist here."""
    (tmp_path / "train.py").write_text("pass\n")
    monkeypatch.chdir(tmp_path)
    _, there = inspected(asked("/nowhere/at/all/train.py", "/nowhere/at/all"), [join()])
    assert there.script == str(tmp_path / "train.py")
    assert there.script_sha256 is not None


def test_a_script_that_is_nowhere_is_void_and_the_cure_is_named(join):
    here, there = inspected(asked("/nowhere/train.py", "/nowhere"), [join()])
    missing = found(SCRIPT, [here, there])["script-missing"]
    assert missing.level == "void"
    assert there.script.endswith("/train.py")


# ---------------------------------------------------------------- modules


def package(folder, train="x = 1\n", net="y = 1\n"):
    """pkg.train in this folder; importing any of it would fail."""
    (folder / "pkg" / "parts").mkdir(parents=True)
    (folder / "pkg" / "__init__.py").write_text("raise SystemExit('this was run')\n")
    (folder / "pkg" / "train.py").write_text(train)
    (folder / "pkg" / "parts" / "net.py").write_text(net)
    return folder


def module_facts(folder, name="pkg.train", node=0):
    subject = Subject(sys.executable, None, False, module=name, directory=str(folder))
    return facts_of_this_node(subject, node=node, way=None)


def test_a_module_is_compared_by_its_content_and_nothing_of_it_is_run(tmp_path):
    first, same, other = (
        package(tmp_path / "a"),
        package(tmp_path / "b"),
        package(tmp_path / "c", train="x = 2\n"),
    )
    here = module_facts(first)
    assert (here.problem, here.script) == (None, "pkg.train")
    assert [name for name, _ in here.beside] == ["__init__.py", "parts/net.py"]
    assert not {"script-differs", "code-differs"} & set(found(MODULE, [here, module_facts(same, node=1)]))
    differs = found(MODULE, [here, module_facts(other, node=1)])["script-differs"]
    assert (differs.level, "the module is not the same" in differs.message) == ("void", True)


def test_a_file_of_the_package_that_differs_is_doubted(tmp_path):
    here, there = package(tmp_path / "a"), package(tmp_path / "b", net="y = 2\n")
    doubt = found(MODULE, [module_facts(here), module_facts(there, node=1)])["code-differs"]
    assert (doubt.level, "parts/net.py" in doubt.message) == ("doubt", True)


@pytest.mark.parametrize("name", ["pkg.absent", "absent", "pkg.train.deeper", "sys"])
def test_a_module_that_a_node_lacks_is_void(tmp_path, name):
    study = Study(Workload("module", name), nodes=(2,), workers_per_node=(1,), workers=(2,), threads=1)
    facts = [module_facts(package(tmp_path / "a"), name), module_facts(tmp_path, name, node=1)]
    missing = found(study, facts)["script-missing"]
    assert f"has no module {name}" in missing.message


def test_a_package_stands_for_its_main(tmp_path):
    (package(tmp_path) / "pkg" / "__main__.py").write_text("import pkg.train\n")
    assert module_facts(tmp_path, "pkg").script_sha256 is not None


# ---------------------------------------------------------------- many nodes, other addresses


def test_all_other_nodes_are_tried_at_once(monkeypatch):
    monkeypatch.setattr(route, "_reaches", lambda address, port, wait_s: time.sleep(0.2) or port == 7)
    began = time.monotonic()
    cut = route.unreached([(node, "192.0.2.1", 7 if node == 3 else 9) for node in range(1, 41)], wait_s=5.0)
    assert time.monotonic() - began < 4.0  # one after the other: 8 s
    assert cut == tuple(node for node in range(1, 41) if node != 3)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_gate_takes_nodes_of_both_families(address):
    if ":" in address and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    gate = Gate(Invitation(), lambda text: None)
    try:
        with contextlib.ExitStack() as held:
            try:
                node = held.enter_context(socket.create_connection((address, gate.port), timeout=5.0))
            except OSError as problem:
                pytest.skip(f"{address} cannot be reached here: {problem}")
            thread = threading.Thread(target=gate.admit, args=(5.0,))
            thread.start()
            wire = node_handshake(node, gate.token)
            wire.send("hello", protocol=gate_module.PROTOCOL, host="straw", paceline="0")
            assert wire.receive(5.0).kind == "welcome"
            thread.join()
            assert gate.present[0].wire.peer_address == address
    finally:
        gate.close()


def test_a_name_that_is_loopback_here_is_not_listened_at(monkeypatch):
    """As Debian has it: the machine's own name is 127.0.1.1 in its /etc/hosts."""
    real = socket.getaddrinfo

    def resolved(host, *rest, **more):
        return real("127.0.1.1" if host == "gpu06" else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    heard = []
    gate = Gate(Invitation(host="gpu06"), heard.append)
    try:
        assert gate.join_lines[0].endswith(f"@gpu06:{gate.port}")
        assert "gpu06 is 127.0.1.1 on this machine" in heard[0]
        socket.create_connection(("127.0.0.1", gate.port), timeout=5.0).close()
    finally:
        gate.close()


def test_an_address_of_ipv6_needs_no_brackets_without_a_port():
    assert invitation("tok@fd00::7") == Invitation("tok", "fd00::7", None)
    assert Invitation(host="fd00::7", port=29560).place == "[fd00::7]:29560"


# ---------------------------------------------------------------- what everybody is told


def test_nodes_are_told_why_nothing_was_started(gate, join, monkeypatch):
    monkeypatch.setattr(gather, "Gate", lambda asked, say: gate)
    with pytest.raises(PacelineError), gather.opened(None, what="study"):  # noqa: PT012
        join()
        raise PacelineError("nothing was started: the script differs", hint="copy it")
    join.threads[0].join(timeout=10)
    assert join.ends == ["nothing was started: the script differs"]


def test_a_node_lost_while_it_is_looked_at_is_named_and_another_is_waited_for(gate, capsys):
    place = ("127.0.0.1", gate.port)

    def leave_at_the_look():
        wire = node_handshake(socket.create_connection(place), gate.token)
        wire.send("hello", protocol=gate_module.PROTOCOL, host="straw", paceline="0")
        while (message := wire.receive(10.0)) is not None and message.kind != "look":
            pass
        wire.close()
        joined_study(Invitation(gate.token, *place), Here(None, None), wait_s=5.0, say=lambda text: None)

    thread = threading.Thread(target=leave_at_the_look)
    thread.start()
    facts = gather.assembled(gate, 2, asked(), wait_s=30.0, what="study")
    gate.close()
    thread.join(timeout=10)
    assert [one.node for one in facts] == [0, 1]
    told = capsys.readouterr().err
    assert "node 1 (straw, 127.0.0.1) was lost: the connection was closed" in told
    assert told.count("Type on 1 other node") == 2


def test_a_node_whose_facts_cannot_be_read_is_lost_with_the_reason(gate):
    def answer_nonsense():
        with contextlib.closing(socket.create_connection(("127.0.0.1", gate.port))) as connection:
            wire = node_handshake(connection, gate.token)
            wire.send("hello", protocol=gate_module.PROTOCOL, host="straw", paceline="0")
            while (message := wire.receive(10.0)) is not None and message.kind != "look":
                pass
            wire.send("facts", facts={"node": "one", "host": 7})
            with contextlib.suppress(WireLost):
                wire.receive(10.0)

    thread = threading.Thread(target=answer_nonsense)
    thread.start()
    member = gate.admit(10.0)
    (here,) = inspected(asked(), [member])
    thread.join(timeout=10)
    assert here.node == 0
    assert "cannot be read" in member.lost


def test_nodes_of_a_probe_are_looked_at_before_it_starts(tmp_path):
    """The joiner's Python claims another torch."""
    other = tmp_path / "python"
    other.write_text('#!/bin/sh\necho \'{"python": "3.11.4", "torch": "1.0.0"}\'\n')
    other.chmod(0o755)
    line = f"abcdef0123456789@127.0.0.1:{route.free_port('127.0.0.1')}"
    joiner = started_desk("join", line, "--python", other, cwd=tmp_path)
    try:
        done = desk("probe", "--nodes", "2", "--seconds", "2s", "--join", line, cwd=tmp_path)
        assert joiner.wait(timeout=30) == 0
    finally:
        joiner.kill()
        joiner.wait()
    assert done.returncode == 1
    assert "1 probe, about 13.0 s" in done.stderr  # what it costs, before anybody joins
    assert "nothing was started: the nodes have different versions of torch" in done.stderr
    assert "1.0.0 on node 1" in done.stderr


def test_a_process_that_shows_no_environment_yet_is_ended_all_the_same(tmp_path, monkeypatch):
    """Between two programs a process has none: the first look at tags misses it."""
    looks = []
    real = local.end_tagged

    def blind_once(tag, *, grace_s):
        looks.append(tag)
        return 0 if len(looks) == 1 else real(tag, grace_s=grace_s)

    monkeypatch.setattr(local, "end_tagged", blind_once)
    tag = f"test-{os.getpid()}:end"
    command = Command(
        (sys.executable, "-c", "import time; time.sleep(60)"), str(tmp_path), {"PACELINE_TAG": tag}, str(tmp_path), tag
    )  # fmt: skip
    with open(tmp_path / "log", "wb") as output:
        launch = LocalLauncher().start(command, output)
    launch.end()
    assert launch.exit_code() is not None
    assert tagged(tag) == []


def test_where_a_module_lies_is_one_line_of_json(tmp_path):
    from paceline.launch.interpreter import package_folder

    tool = package_folder("paceline_agent") / "enter" / "find_module.py"
    done = subprocess.run(
        [sys.executable, tool, "pkg.train"], cwd=package(tmp_path), capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == {
        "file": str(tmp_path / "pkg" / "train.py"),
        "package": str(tmp_path / "pkg"),
    }


def test_a_joiner_that_names_itself_is_told_so(gate, monkeypatch):
    """Machines that were cloned have one name, and each takes it for itself."""
    real = socket.getaddrinfo
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *rest, **more: real(host.replace("gpu06", "127.0.1.1"), *rest, **more),
    )
    heard = []
    with pytest.raises(PacelineError, match="no study answers at gpu06"):
        joined_study(
            Invitation("t", "gpu06", route.free_port("127.0.1.1")),
            Here(None, None),
            wait_s=0.0,
            say=heard.append,
        )
    assert heard[0].startswith("gpu06 is 127.0.1.1 here, this machine itself")


@pytest.mark.parametrize(
    "verb", [pytest.param(("study", "train.py"), marks=pytest.mark.slow), ("probe", "--no-device")]
)
def test_a_desk_that_is_stopped_while_it_waits_says_so_and_sends_nodes_home(tmp_path, verb):
    (tmp_path / "train.py").write_text("import torch\n")
    line = f"abcdef0123456789@127.0.0.1:{route.free_port('127.0.0.1')}"
    asked_of_desk = (verb[0], "--nodes", "3", "--join", line, "--out", "kept", *verb[1:])
    with open(tmp_path / "err", "w+b") as err:
        waiting = subprocess.Popen([*DESK, *asked_of_desk], cwd=tmp_path, env=environment(), stderr=err)
        joiner = started_desk("join", line, cwd=tmp_path)
        try:
            assert until(lambda: b"2 of 3 nodes are here" in (tmp_path / "err").read_bytes(), wait_s=60)
            waiting.terminate()
            assert waiting.wait(timeout=30) == 130
            assert joiner.wait(timeout=30) == 0
        finally:
            for process in (waiting, joiner):
                process.kill()
                process.wait()
    assert b"stopped before 3 nodes were ready; nothing was started" in (tmp_path / "err").read_bytes()


def test_a_node_that_comes_when_the_study_ends_does_not_wait_for_another(gate):
    """The kernel has taken its connection; nobody ever greets it."""
    heard, ends = [], []

    def come():
        with pytest.raises(PacelineError, match="ended before it let this node in") as refused:
            joined_study(
                Invitation(gate.token, "127.0.0.1", gate.port),
                Here(None, None),
                wait_s=60.0,
                say=heard.append,
            )
        ends.append(refused.value)

    thread = threading.Thread(target=come)
    thread.start()
    assert until(lambda: heard, wait_s=10)
    gate.close()
    thread.join(timeout=20)
    assert len(ends) == 1


def test_a_study_that_stays_busy_is_not_called_absent(gate):
    with pytest.raises(PacelineError, match="let nobody in for 100 ms: no answer in time") as refused:
        joined_study(
            Invitation(gate.token, "127.0.0.1", gate.port),
            Here(None, None),
            wait_s=0.1,
            say=lambda text: None,
        )
    assert "--wait" in refused.value.hint
