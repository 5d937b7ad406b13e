"""Laws of the agent's parts, in this process and without torch where it is not needed."""

from __future__ import annotations

import json
import mmap
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from paceline_agent.__main__ import is_out_of_memory
from paceline_agent.agent import Agent
from paceline_agent.guard import guarded
from paceline_agent.record import files
from paceline_agent.record.cycle import rarest
from paceline_agent.record.recorder import Recorder
from paceline_agent.settings import VARIABLE, Settings, settings_from_environment
from paceline_agent.watch.loader import batch_length, fingerprint


class Optimizer:
    """Something that can be told apart and weakly referenced."""


def closes(recorder, optimizers, rounds):
    """Which of the optimizers ended a step, in order."""
    ended = []
    for _ in range(rounds):
        for name, optimizer in optimizers.items():
            if recorder.ends_step(optimizer):
                ended.append(name)
    return ended


def test_one_optimizer_ends_every_step():
    assert closes(Recorder(), {"a": Optimizer()}, 10) == ["a"] * 10


def test_of_two_optimizers_the_second_ends_the_step_once_the_cycle_is_known():
    optimizers = {"a": Optimizer(), "b": Optimizer()}
    ended = closes(Recorder(), optimizers, 10)
    assert ended[-8:] == ["b"] * 8


def test_an_optimizer_that_is_replaced_is_replaced_here_too():
    recorder, first = Recorder(), Optimizer()
    closes(recorder, {"a": first}, 6)
    del first
    assert closes(recorder, {"new": Optimizer()}, 3) == ["new"] * 3


def in_order(recorder, names, optimizers):
    """Which of these steps, as indices, ended a training step."""
    return [index for index, name in enumerate(names) if recorder.ends_step(optimizers[name])]


@pytest.mark.parametrize("critic", [2, 3, 5, 10])
def test_a_critic_that_steps_several_times_for_each_generator_step_ends_no_step(critic):
    names = ("d" * critic + "g") * 12
    recorder = Recorder()
    ended = in_order(recorder, names, {"d": Optimizer(), "g": Optimizer()})
    known = [index for index in ended if index > 2 * critic]
    assert known == [index for index, name in enumerate(names) if name == "g" and index > 2 * critic]
    assert recorder.cycle.most == 2


@pytest.mark.parametrize("first", [6, 30, 200])
def test_a_second_phase_with_an_optimizer_of_its_own_ends_its_steps(first):
    names = "a" * first + "b" * 60
    ended = in_order(Recorder(), names, {"a": Optimizer(), "b": Optimizer()})
    assert ended[-40:] == list(range(first + 20, first + 60))


def test_five_optimizers_in_turn_end_a_step_with_the_fifth():
    ended = in_order(Recorder(), "abcde" * 10, {name: Optimizer() for name in "abcde"})
    assert [index for index in ended if index >= 10] == list(range(14, 50, 5))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_the_rarest_is_no_more_frequent_than_any_and_the_last_of_its_equals(order):
    found = rarest(order)
    equals = [name for name in order if order.count(name) == min(map(order.count, order))]
    assert found == equals[-1]


def test_a_step_is_from_end_to_end_and_the_first_has_no_beginning():
    recorder = Recorder()
    recorder.close_step(10.0, 0.1)
    recorder.close_step(10.5, 0.1)
    first, second = recorder.records()
    assert first["step_s"] is None
    assert second["step_s"] == pytest.approx(0.5)
    assert (first["k"], second["k"]) == (1, 2)


def test_what_happened_in_a_step_is_booked_to_it_and_to_no_other():
    recorder = Recorder()
    recorder.loader_seen = True
    recorder.input_s, recorder.samples = 0.3, {1: 32, 2: 8}
    recorder.close_step(1.0, 0.0)
    recorder.close_step(2.0, 0.0)
    first, second = recorder.records()
    assert (first["input_s"], first["samples"]) == (0.3, 32)
    assert (second["input_s"], second["samples"]) == (0.0, None)


@pytest.mark.parametrize(("step_s", "looked"), [(0.5, 24), (0.001, 9)])
def test_long_steps_are_all_looked_at_and_short_ones_in_part(step_s, looked):
    assert sum(looks(Recorder(steps=30), 30, step_s)[6:]) == pytest.approx(looked, abs=2)


def test_even_the_shortest_trial_is_looked_at_often_enough():
    assert all(looks(Recorder(steps=10), 20, 0.001))


@pytest.mark.parametrize(("own_s", "looked"), [(0.0004, 24), (0.0006, 8)])
def test_steps_with_many_communications_are_looked_at_in_part(own_s, looked):
    """Of 100 ms, half a per cent is 0.5 ms."""
    assert sum(looks(Recorder(steps=30), 30, 0.1, own_s)[6:]) == looked


def looks(recorder, steps, step_s, own_s=0.0):
    """Of so many steps of this length, in which the agent takes so long, which were looked at."""
    looked = []
    for k in range(steps):
        looked.append(recorder.looking)
        recorder.own_s = own_s
        recorder.close_step(k * step_s, 0.0)
    return looked


def tensor(*shape):
    return SimpleNamespace(shape=shape)


@pytest.mark.parametrize(
    ("batch", "count"),
    [
        (tensor(32, 3), 32),
        ([tensor(16, 3), tensor(16)], 16),
        ({"x": tensor(8, 2), "y": tensor(8)}, 8),
        ([{"deep": (tensor(4),)}], 4),
        (["words", tensor(5)], 5),
        ("words", None),
        (tensor(), None),
        (None, None),
    ],
)
def test_a_batch_is_as_long_as_its_first_tensor(batch, count):
    assert batch_length(batch) == count


def test_equal_batches_have_equal_fingerprints_and_others_do_not():
    import torch

    first = torch.arange(12.0)
    assert fingerprint([first]) == fingerprint([first.clone()])
    assert fingerprint([first]) != fingerprint([first + 1])
    assert fingerprint([torch.ones(12)]) is None  # equal by chance, not evidence


def test_a_guard_stops_measuring_and_lets_training_go_on():
    recorder = Recorder()
    recorder.active = True
    told = []
    recorder.failed = lambda: told.append(True)

    def breaks():
        raise ValueError("no")

    guard = guarded(recorder, breaks)
    assert guard() is None
    assert not recorder.active
    assert recorder.problems == ["breaks: ValueError: no"]
    assert told == [True]
    assert guard() is None  # and once it has stopped, nothing runs any more
    assert len(recorder.problems) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"steps": 3}', '{"dir": "x", "steps": "many"}', "null"])
def test_orders_that_cannot_be_read_are_no_orders(monkeypatch, text):
    monkeypatch.setenv(VARIABLE, text)
    assert settings_from_environment() is None


def test_orders_say_when_the_trial_ends(monkeypatch):
    monkeypatch.setenv(VARIABLE, json.dumps({"dir": "/x", "steps": 30, "warmup": 10, "profile": 5}))
    assert settings_from_environment().last_step == 45


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (type("OutOfMemoryError", (RuntimeError,), {})("CUDA out of memory"), True),
        (RuntimeError("shapes do not match"), False),
        (ValueError("can't allocate memory"), False),
    ],
)
def test_running_out_of_memory_is_recognised(error, expected):
    assert is_out_of_memory(error) is expected


def test_a_heartbeat_is_readable_by_another(tmp_path):
    heart = files.Heartbeat(str(tmp_path), 3)
    heart.phase(0, files.STEPPING)
    heart.step(17, 123.5)
    with (
        open(tmp_path / "heartbeat-3", "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view,
    ):
        steps, at, pid, phase = files.HEARTBEAT.unpack(view[:])
    assert (steps, at, phase) == (17, 123.5, files.STEPPING)
    assert pid > 0


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    files.write_lines(str(tmp_path), "worker-0.jsonl", [{"loss": float("nan")}, {"loss": 1.5}])
    lines = [json.loads(line) for line in (tmp_path / "worker-0.jsonl").read_text().splitlines()]
    assert lines == [{"loss": "nan"}, {"loss": 1.5}]
    with pytest.raises(ValueError, match="JSON"):
        files.write_json(str(tmp_path), "manifest-0.json", {"x": float("nan")})
    assert [path.name for path in tmp_path.iterdir()] == ["worker-0.jsonl"]


def test_a_process_is_not_charged_for_the_memory_of_the_one_that_started_it():
    """getrusage is: the largest resident set is inherited across exec on Linux."""
    hundreds = bytearray(400_000_000)
    hundreds[::4096] = b"x" * len(hundreds[::4096])
    code = "from paceline_agent.record.host import peak_memory_bytes; print(peak_memory_bytes())"
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    del hundreds
    assert int(said) < 200e6


def test_a_training_on_a_device_is_not_waited_for_though_it_has_no_ddp(tmp_path, monkeypatch):
    """One worker often trains without DDP: a loss read at once would make it wait for the device at every step."""
    agent = Agent(Settings(str(tmp_path)))
    monkeypatch.setattr(agent.seen, "use_device", lambda: setattr(agent.seen, "device", FakeDevice()))
    weight = SimpleNamespace(is_cuda=True)
    agent._meet(SimpleNamespace(param_groups=[{"params": []}, {"params": [weight]}]))
    agent.after_backward(torch.ones(()))
    assert isinstance(agent._loss_value(), torch.Tensor)


class FakeDevice:
    """A device without an exchange under way."""

    def take_buckets(self):
        return []


def test_on_the_cpu_a_loss_is_a_number_at_once(tmp_path):
    agent = Agent(Settings(str(tmp_path)))
    agent._meet(torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=0.1))
    agent.after_backward(torch.full((), 3.0))
    loss = agent._loss_value()
    assert (type(loss), loss) == (float, 3.0)
