"""Desk and node over a socket: only who holds the token is heard, nothing is altered, nothing waits for ever."""

import socket
import threading
import time

import pytest

from paceline.core.errors import PacelineError, TokenRefused, UsageError
from paceline.launch.nodes import handshakes
from paceline.launch.nodes.files import chunks, packed, unpacked, written
from paceline.launch.nodes.gate import PROTOCOL, Gate, Invitation, invitation
from paceline.launch.nodes.wire import WireLost, desk_handshake, node_handshake


def shaken(token="t", other="t"):
    """Both ends after the handshake, each a Wire or the error that it met."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    met = []

    def node():
        try:
            met.append(node_handshake(near, other))
        except (TokenRefused, WireLost) as problem:
            near.close()
            met.append(problem)

    thread = threading.Thread(target=node)
    thread.start()
    try:
        desk = desk_handshake(far, token)
    except (TokenRefused, WireLost) as problem:
        far.close()
        desk = problem
    thread.join()
    return desk, met[0]


@pytest.fixture
def wires():
    both = shaken()
    yield both
    for wire in both:
        wire.close()


def test_messages_arrive_whole_and_in_order(wires):
    desk, node = wires
    desk.send("one", b"\x00\xff" * 500_000, x=[1, "é"])
    desk.send("two")
    first, second = node.receive(5.0), node.receive(5.0)
    assert (first.kind, first.values, len(first.body)) == ("one", {"x": [1, "é"]}, 1_000_000)
    assert (second.kind, second.body) == ("two", b"")
    assert node.receive(0.0) is None


def test_both_sides_see_the_route_between_them(wires):
    desk, node = wires
    assert desk.own_address == node.peer_address == "127.0.0.1"


def test_a_wrong_token_is_refused_on_both_sides():
    desk, node = shaken("right", "wrong")
    assert "knocked with another token" in desk.message
    assert "does not take this token" in node.message


def test_what_was_altered_or_repeated_on_the_way_is_not_believed(wires):
    desk, node = wires
    desk.send("one")
    frame = node._socket.recv(1000)
    desk._socket.sendall(frame)
    assert node.receive(5.0).kind == "one"
    desk._socket.sendall(frame)
    with pytest.raises(WireLost, match="damaged"):
        node.receive(5.0)


def test_half_a_message_keeps_nobody_waiting(wires):
    desk, node = wires
    desk._socket.sendall(b"\x00\x00\x10\x00half")
    assert node.receive(0.05) is None
    desk.close()
    with pytest.raises(WireLost, match="closed"):
        node.receive(5.0)


def test_a_length_beyond_reason_is_not_awaited(wires):
    desk, node = wires
    desk._socket.sendall(b"\xff\xff\xff\xff")
    with pytest.raises(WireLost, match="announced"):
        node.receive(5.0)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("tok@host:12", Invitation("tok", "host", 12)),
        ("a@b@[fe80::1]:12", Invitation("a@b", "fe80::1", 12)),
        ("tok@[fe80::1]", Invitation("tok", "fe80::1", None)),
        ("@10.0.0.1", Invitation(None, "10.0.0.1", None)),
        (":29555", Invitation(None, None, 29555)),
    ],
)
def test_any_part_of_an_invitation_may_be_left_out(text, parts):
    assert invitation(text) == parts


@pytest.mark.parametrize("text", ["t@h:x", "t@h:0", "t@h:70000", "t@h:²"])
def test_a_port_is_a_number_that_a_port_can_have(text):
    with pytest.raises(UsageError, match="is not a port"):
        invitation(text)


def test_a_gate_prints_a_line_that_leads_back_to_it():
    heard = []
    gate = Gate(Invitation(host="127.0.0.1"), heard.append)
    try:
        verb, place = gate.join_lines[0].rpartition(" ")[::2]
        back = invitation(place)
        assert (verb, back.token, back.host) == ("paceline join", gate.token, "127.0.0.1")
        stranger = socket.create_connection((back.host, back.port))
        stranger.close()
        assert gate.admit(5.0) is None
        assert gate.present == []
    finally:
        gate.close()


def dripping(gate, stop):
    """A stranger that sends a byte now and then, so that no single wait is ever long."""
    with socket.create_connection(("127.0.0.1", gate.port)) as stranger:
        while not stop.wait(0.1):
            try:
                stranger.sendall(b"x")
            except OSError:
                return


@pytest.fixture
def strangers(gate, monkeypatch):
    """Twenty of them, and the deadline of a handshake short."""
    monkeypatch.setattr(handshakes, "DEADLINE_S", 1.5)
    stop = threading.Event()
    threads = [threading.Thread(target=dripping, args=(gate, stop)) for _ in range(20)]
    for thread in threads:
        thread.start()
    yield threads
    stop.set()
    for thread in threads:
        thread.join(timeout=5)


def come(gate, met):
    wire = node_handshake(socket.create_connection(("127.0.0.1", gate.port)), gate.token)
    wire.send("hello", protocol=PROTOCOL, host="straw", paceline="0")
    met.append(wire)


@pytest.mark.alone
def test_strangers_that_dawdle_keep_no_node_waiting(gate, strangers):
    met, began = [], time.monotonic()
    node = threading.Thread(target=come, args=(gate, met))
    node.start()
    while (member := gate.admit(1.0)) is None:
        assert time.monotonic() - began < 1.4
    assert (member.node, met[0].receive(5.0).kind) == (1, "welcome")
    node.join()
    met[0].close()


@pytest.mark.alone
def test_a_stranger_has_one_deadline_however_slowly_bytes_come(gate, strangers):
    began = time.monotonic()
    assert list(gate.arrivals(30.0)) == []
    assert time.monotonic() - began < 4.0
    for thread in strangers:
        thread.join(timeout=2)
        assert not thread.is_alive()  # its connection was closed


@pytest.mark.alone
def test_between_two_runs_strangers_take_no_longer_than_they_may(gate, strangers):
    began = time.monotonic()
    assert list(gate.arrivals(0.3)) == []
    assert time.monotonic() - began < 1.0


def test_no_more_than_so_many_prove_themselves_at_once(gate, monkeypatch):
    monkeypatch.setattr(handshakes, "_MOST_AT_ONCE", 2)
    strangers = [socket.create_connection(("127.0.0.1", gate.port)) for _ in range(5)]
    assert gate.admit(0.5) is None
    greeted = []
    for stranger in strangers:
        stranger.settimeout(2.0)
        greeted.append(len(stranger.recv(100)) > 0)
        stranger.close()
    assert sorted(greeted) == [False, False, False, True, True]


def test_files_of_a_node_cannot_leave_the_trial_folder(tmp_path):
    for name in (
        "../worker-0.jsonl",
        "/etc/worker-0.jsonl",
        "trial.json",
        "agent/x.py",
        "worker-0.jsonl\n",
        None,
    ):
        written(tmp_path, name, b"x", first=True)
    assert list(tmp_path.iterdir()) == []
    written(tmp_path, "worker-3.jsonl", b"ab", first=True)
    written(tmp_path, "worker-3.jsonl", b"c", first=False)
    assert (tmp_path / "worker-3.jsonl").read_bytes() == b"abc"


def test_code_and_long_files_arrive_as_they_left(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c.py").write_text("x = 'é'\n")
    unpacked(packed(tmp_path / "a"), tmp_path / "copy")
    assert (tmp_path / "copy" / "b" / "c.py").read_text() == "x = 'é'\n"
    (tmp_path / "worker-0.jsonl").write_bytes(b"0123456789" * 1_000_000)
    pieces = list(chunks(tmp_path / "worker-0.jsonl"))
    assert [first for _, first in pieces] == [True, False, False]
    assert b"".join(piece for piece, _ in pieces) == b"0123456789" * 1_000_000
    (tmp_path / "failed-0").write_bytes(b"")
    assert list(chunks(tmp_path / "failed-0")) == [(b"", True)]


def test_two_studies_on_one_machine_have_two_ports():
    gates = [Gate(Invitation(host="127.0.0.1"), print) for _ in range(2)]
    try:
        assert gates[0].port != gates[1].port
        with pytest.raises(PacelineError, match=f"cannot listen at 127.0.0.1:{gates[0].port}"):
            Gate(Invitation(host="127.0.0.1", port=gates[0].port), print)
    finally:
        for gate in gates:
            gate.close()
