"""A script's own metrics and its gradients' noise, read in real trainings of two workers, without changing them."""

import re
from dataclasses import replace

import pytest

from paceline.converge.epochs import noise_scale
from paceline.converge.noise_scale import gradient_blocks
from paceline.plan.trials import plan_study
from paceline.records import Goal, Study, Workload
from paceline.run.trial import run_trial
from paceline.store.paths import StudyFolder
from paceline_agent.record.recorder import Recorder
from paceline_agent.watch.metrics import _watch_stream, is_pattern, metric_name
from tests.support.trial import SCRIPTS, bench
from tests.support.warm import WarmLauncher, run_ranks

PATTERN = r"val_acc=([0-9.]+)"


def trained(folder, *args, goal, launcher=None):
    workload = Workload("script", str(SCRIPTS / "known_noise.py"), args)
    study = Study(workload, workers=(2,), repeats=1, goal=goal, steps=10, warmup=2, threads=1)
    (trial,) = plan_study(study).trials
    return run_trial(StudyFolder(folder), study, trial, bench=bench(launcher), stepped=lambda beats: None)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A training to its own end, watched: its result, and where its weights are."""
    folder = tmp_path_factory.mktemp("whole")
    result = trained(folder / "study", "--save", str(folder / "weights.pt"), goal=Goal(metric=PATTERN))
    assert result.state == "ok", result.reason
    return result, folder / "weights.pt"


def test_what_a_script_prints_is_a_metric_at_the_moment_it_is_printed(whole):
    result, _ = whole
    first, second = result.workers
    seen = [mark for mark in first.marks if mark.name == "val_acc"]
    assert [mark.value for mark in seen] == pytest.approx([0.5, 0.6, 0.7, 0.8])
    assert [mark.k for mark in seen] == [100, 200, 300, 400]
    ends = {sample.k: sample.end_s for sample in first.samples}
    assert all(ends[mark.k] <= mark.end_s for mark in seen)
    assert all(mark.end_s <= ends[mark.k + 1] for mark in seen[:-1])
    assert not second.marks


def test_what_a_script_tells_tensorboard_is_a_metric_too(whole):
    result, _ = whole
    told = [mark.value for mark in result.workers[0].marks if mark.name == "loss/test"]
    assert told == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4])


def test_the_noise_scale_of_a_known_gradient_is_found_although_gradients_are_clipped(whole):
    result, _ = whole
    blocks = gradient_blocks(result.workers)
    assert blocks.global_batch == 32
    assert sum(blocks.square) / len(blocks.square) == pytest.approx(20.0, rel=0.1)
    assert sum(blocks.variance) / len(blocks.variance) == pytest.approx(200.0, rel=0.1)
    found = noise_scale(blocks.square, blocks.variance, batch=blocks.global_batch)
    assert found.value == pytest.approx(10.0, rel=0.1)  # coverage is held by simulation
    assert found.low < found.value < found.high


def test_readings_are_taken_every_tenth_step_and_never_in_a_timed_one(whole):
    result, _ = whole
    for worker in result.workers:
        steps = [norm.k for norm in worker.gradients]
        assert steps == list(range(20, 401, 10))  # 2 warm-up, 10 timed, 5 profiled
        assert not worker.manifest["problems"]


def test_weights_are_bit_for_bit_those_of_a_training_that_nobody_watched(whole, tmp_path):
    import torch

    _, watched = whole
    alone = tmp_path / "alone.pt"
    for code, output in run_ranks(2, SCRIPTS / "known_noise.py", "--save", alone):
        assert code == 0, output
    assert torch.equal(torch.load(watched), torch.load(alone))


def test_a_script_ends_on_all_workers_where_its_metric_reaches_the_target(tmp_path):
    goal = Goal(metric=PATTERN, target=0.55, seeds=1)
    result = trained(tmp_path / "study", goal=goal, launcher=WarmLauncher())
    assert result.state == "ok", result.reason
    assert [worker.samples[-1].k for worker in result.workers] == [202, 202]
    log = (tmp_path / "study" / "trials" / result.trial.id / "out-0.log").read_text()
    assert "came to its own end" not in log


def test_one_worker_has_no_noise_scale(whole):
    result, _ = whole
    assert gradient_blocks(result.workers[:1]) is None
    silent = [replace(worker, gradients=()) for worker in result.workers]
    assert gradient_blocks(silent) is None


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        (PATTERN, "val_acc"),
        (r"(?i)Accuracy:\s+([0-9.]+)%", "Accuracy"),
        (r"\[eval\] top1 (\S+)", "eval"),
        ("([0-9.]+)", "metric"),
    ],
)
def test_a_pattern_is_called_by_its_first_word(pattern, name):
    assert metric_name(pattern) == name
    assert is_pattern(pattern)
    assert not is_pattern("val_accuracy")


class Stream:
    """What a script may have put in place of its output."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text
        return len(text)


def heard(*texts, pattern=PATTERN):
    recorder, stream, found = Recorder(), Stream(), []
    recorder.active = True
    _watch_stream(recorder, stream, re.compile(pattern), found.append)
    for text in texts:
        assert stream.write(text) == len(text)
    assert stream.text == "".join(texts)
    return found, recorder


def test_lines_are_searched_whole_however_they_are_written():
    assert heard("val_a", "cc=0.", "5\nval_acc=0.6\rval_acc=0.7")[0] == [0.5, 0.6]


def test_what_is_no_number_is_no_metric_and_measuring_goes_on():
    found, recorder = heard("val_acc=...\nval_acc=0.5\n")
    assert found == [0.5]
    assert recorder.active
