"""What is missing, when a trial is over, and what its end is called: with a fake clock and made-up evidence."""

import shutil
import struct
from dataclasses import dataclass, field, replace

import pytest

from paceline.core.errors import StudyError
from paceline.launch.replay import ReplayLauncher
from paceline.plan.trials import plan_study
from paceline.records import Sample, Study, TrialResult, WorkerRecord, Workload
from paceline.run.classify import Evidence, classify
from paceline.run.missing import device_s, expected_wall_s, given_up, missing, settled
from paceline.run.study import Silent, run_study
from paceline.run.trial import Bench
from paceline.run.watch import Limits, Watched, watch
from paceline.store.paths import StudyFolder
from paceline.store.trial_files import commit, read_results
from paceline.store.worker_files import Ending, Failure, Heartbeat

STUDY = Study(Workload("module", "train"), workers=(1, 2), repeats=5, steps=20, warmup=2)
PLAN = plan_study(STUDY)


def samples(step_s, loss=None):
    return tuple(
        Sample(k, k * step_s, step_s, None, 0.0, (), 8, None, 1, False, 0.0, loss) for k in range(2, 28)
    )


def result(trial, step_s=0.1, *, state="ok", reason=None, wall_s=10.0):
    workers = tuple(
        WorkerRecord(r, trial.point.workers, samples(step_s), {}) for r in range(trial.point.workers)
    )
    return TrialResult(trial, state, reason, workers if state == "ok" else (), wall_s)


# ------------------------------------------------------------------ what is missing


def test_a_complete_trial_is_never_run_again():
    done = [result(trial, 0.1 + 0.05 * i) for i, trial in enumerate(PLAN.trials[:2])]
    assert missing(PLAN, done, STUDY) == PLAN.trials[2:]


def test_a_point_is_finished_early_once_three_launches_agree():
    alone = [trial for trial in PLAN.trials if trial.point.workers == 1]
    agree = [result(trial, 0.1) for trial in alone[:3]]
    assert not settled(PLAN.points[0], agree[:2], STUDY)
    assert settled(PLAN.points[0], agree, STUDY)
    assert {trial.point.workers for trial in missing(PLAN, agree, STUDY)} == {2}
    disagree = [result(trial, 0.1 + 0.02 * i) for i, trial in enumerate(alone[:3])]
    assert not settled(PLAN.points[0], disagree, STUDY)


def test_two_failures_of_one_cause_end_a_point_and_two_causes_do_not():
    alone = [trial for trial in PLAN.trials if trial.point.workers == 1]
    boom = [
        result(t, state="crashed", reason=f"worker 0: boom after {i} steps") for i, t in enumerate(alone[:2])
    ]
    other = [boom[0], replace(boom[1], reason="worker 0: other")]
    assert given_up(PLAN.points[0], boom) == "worker 0: boom after 0 steps"
    assert given_up(PLAN.points[0], other) is None
    assert {trial.point.workers for trial in missing(PLAN, boom, STUDY)} == {2}


def test_the_price_of_a_trial_is_that_of_its_own_point_else_of_the_nearest():
    done = [result(PLAN.trials[0], wall_s=7.0)]
    assert expected_wall_s(PLAN.points[0], done, STUDY) == 7.0
    assert expected_wall_s(PLAN.points[1], done, STUDY) == 7.0
    assert device_s([*done, result(PLAN.trials[1], wall_s=5.0)]) == 7.0 + 2 * 5.0
    lost = result(PLAN.trials[1], state="crashed", reason="node 1 was lost", wall_s=2.0)
    assert expected_wall_s(PLAN.points[1], [*done, lost], STUDY) == 7.0  # what ends early is no measure
    assert expected_wall_s(PLAN.points[1], [lost], STUDY) == 2.0


# ------------------------------------------------------------------ when a trial is over


@dataclass
class FakeClock:
    now: float = 0.0

    def monotonic_s(self):
        return self.now

    def pause(self, seconds):
        self.now += seconds

    def date(self):
        return f"{self.now:020.6f}"


@dataclass
class FakeLaunch:
    clock: FakeClock
    exits_at_s: float = 1e9
    asked: list = field(default_factory=list)

    def exit_code(self):
        return 0 if self.clock.now >= self.exits_at_s else None

    def ask_stacks(self, pid):
        self.asked.append(pid)
        return False

    def end(self):
        raise AssertionError("the caller ends a trial, not the watch")


def beat(folder, rank, steps, phase=1):
    (folder / f"heartbeat-{rank}").write_bytes(struct.pack("<QdQQ", steps, 0.0, 100 + rank, phase))


def watched(folder, *, exits_at_s=1e9, timeout_s=600.0, hang_s=5.0, stepped=lambda beats: None, workers=2):
    clock = FakeClock()
    launch = FakeLaunch(clock, exits_at_s)
    limits = Limits(timeout_s, hang_s)
    return launch, watch(launch, folder, workers=workers, limits=limits, clock=clock, stepped=stepped)


def test_a_trial_is_over_when_its_process_is(tmp_path):
    _, end = watched(tmp_path, exits_at_s=3.0)
    assert (end.how, end.exit_code) == ("exited", 0)


def test_a_folder_that_is_gone_is_noticed_within_ten_seconds_and_one_that_comes_back_is_not(tmp_path):
    began = {}

    def away(beats):
        began.setdefault("looks", 0)
        began["looks"] += 1
        if began["looks"] == 3:
            (tmp_path / "t").rename(tmp_path / "u")
        if began["looks"] == 8 and began["back"]:
            (tmp_path / "u").rename(tmp_path / "t")

    for back in (True, False):
        (tmp_path / "t").mkdir(exist_ok=True)
        began.clear()
        began["back"] = back
        if back:
            assert watched(tmp_path / "t", exits_at_s=30.0, hang_s=1e9, stepped=away)[1].how == "exited"
        else:
            with pytest.raises(StudyError, match="is not there any more"):
                watched(tmp_path / "t", exits_at_s=12.0, hang_s=1e9, stepped=away)


def test_starting_up_has_its_own_patience(tmp_path):
    beat(tmp_path, 0, 0, phase=0)
    _, end = watched(tmp_path)
    assert end.how == "hung"
    assert end.wall_s == pytest.approx(180.0, abs=1.0)


def test_no_step_for_too_long_is_a_hang_and_every_worker_is_asked_where_it_is(tmp_path):
    beat(tmp_path, 0, 3)
    beat(tmp_path, 1, 3)
    launch, end = watched(tmp_path)
    assert end.how == "hung"
    assert end.wall_s == pytest.approx(5.0, abs=1.0)
    assert launch.asked == [100, 101]


def test_slow_steps_are_not_a_hang(tmp_path):
    counts = iter(range(1, 10_000))

    def step(beats):
        beat(tmp_path, 0, next(counts))

    _, end = watched(tmp_path, exits_at_s=60.0, stepped=step, workers=1)
    assert end.how == "exited"


def test_time_is_up_for_a_trial_that_still_steps(tmp_path):
    counts = iter(range(1, 10_000))
    _, end = watched(tmp_path, timeout_s=30.0, stepped=lambda beats: beat(tmp_path, 0, next(counts)))
    assert (end.how, end.wall_s) == ("timeout", pytest.approx(30.0, abs=1.0))


def test_a_failed_worker_ends_the_trial_before_the_others_hang(tmp_path):
    beat(tmp_path, 0, 3)
    (tmp_path / "exit-1.json").write_text('{"type": "E", "message": "", "oom": true}')
    _, end = watched(tmp_path, hang_s=60.0)
    assert (end.how, end.wall_s) == ("exited", pytest.approx(10.5, abs=1.0))


def test_a_launcher_that_does_not_return_is_not_waited_for(tmp_path):
    beat(tmp_path, 0, 30, phase=2)
    beat(tmp_path, 1, 30, phase=2)
    _, end = watched(tmp_path, hang_s=5.0)
    assert (end.how, end.wall_s) == ("exited", pytest.approx(20.5, abs=1.0))


# ------------------------------------------------------------------ what its end is called

ENOUGH = (Ending(0, "enough", 30), Ending(1, "enough", 30))
BEATS = (Heartbeat(0, 12, 100, 1), Heartbeat(1, 12, 101, 1))
TRACE = (
    'File "/x/site-packages/torch/a.py", line 1\nFile "/me/train.py", line 31\nFile "/x/torch/b.py", line 2'
)
SLEEPS = 'File "/me/train.py", line 40 in slow\nFile "/me/train.py", line 99 in main'
WAITS = 'File "/x/site-packages/torch/graph.py", line 9 in run\nFile "/me/train.py", line 41 in main'


def ended(how="exited", code=1, **known):
    base = Evidence(2, Watched(how, code, 9.0, BEATS), Limits(600.0, 60.0), (), (), (), {}, "", 0)
    return classify(replace(base, **known))


def failure(rank, kind="RuntimeError", message="boom", oom=False):
    return Failure(rank, kind, message, TRACE, 12, oom)


def test_workers_that_reached_their_end_are_ok_whatever_the_exit_code():
    assert ended(code=1, endings=ENOUGH) == ("ok", None)
    assert ended(how="timeout", code=None, endings=ENOUGH) == ("ok", None)


def test_a_failure_names_worker_cause_place_and_step():
    assert ended(failures=(failure(1),)) == (
        "crashed",
        "worker 1 of 2: RuntimeError: boom (train.py:31) after 12 steps",
    )


def test_a_reason_can_be_printed_anywhere_whatever_was_raised():
    reason = ended(failures=(failure(1, message="\x1b[31mred\x1b[0m \udcff\x00\x07"),))[1]
    assert reason == "worker 1 of 2: RuntimeError: red ??? (train.py:31) after 12 steps"


def test_memory_is_the_cause_even_when_others_complain_first():
    echo = failure(0, message="Connection closed by peer")
    state, reason = ended(failures=(echo, failure(1, "OutOfMemoryError", "2 TiB", oom=True)))
    assert state == "oom"
    assert reason.startswith("worker 1 of 2: OutOfMemoryError")


def test_the_echo_of_a_death_is_not_its_cause():
    log = "Root Cause (first observed failure):\n rank : 1 (local_rank: 1)\n exitcode : -9 (pid: 5)"
    echo = failure(0, message="gloo: Connection reset by peer")
    assert ended(failures=(echo,), log=log) == ("crashed", "worker 1 of 2 killed by SIGKILL after 12 steps")
    assert ended(failures=(echo,))[1].startswith("worker 0 of 2: RuntimeError: gloo")
    assert ended(failures=(echo, failure(1)), log=log)[1].startswith("worker 1 of 2: RuntimeError: boom")


def test_a_lost_node_is_the_cause_and_its_name_the_reason():
    echo = failure(0, message="gloo: Connection reset by peer")
    assert ended(failures=(echo,), lost_nodes=("node 1 (b) was lost: it left",)) == (
        "crashed",
        "node 1 (b) was lost: it left",
    )


def test_of_what_two_nodes_say_the_killed_worker_began_it():
    noticed = "Root Cause (first observed failure):\n rank : 0 (local_rank: 0)\n exitcode : 1 (pid: 5)\n"
    killed = "Root Cause (first observed failure):\n rank : 1 (local_rank: 0)\n exitcode : -9 (pid: 6)\n"
    assert ended(log=noticed + killed)[1] == "worker 1 of 2 killed by SIGKILL after 12 steps"
    assert ended(log=killed + noticed)[1] == "worker 1 of 2 killed by SIGKILL after 12 steps"


def test_a_kill_by_the_kernel_for_memory_is_oom():
    log = "Root Cause (first observed failure):\n rank : 1 (local_rank: 1)\n exitcode : -9 (pid: 5)"
    state, reason = ended(log=log, memory_kills=1)
    assert state == "oom"
    assert "worker 1 of 2 killed by SIGKILL" in reason


def test_a_hang_names_the_worker_that_the_others_wait_for():
    state, reason = ended("hung", None, stacks={0: WAITS, 1: SLEEPS})
    assert (state, reason) == (
        "hung",
        "no step for 60.0 s: worker 1 of 2 is behind after 12 steps, standing in train.py:40",
    )


def test_workers_that_do_not_answer_are_said_to():
    assert ended("hung", None, stacks={0: "", 1: ""})[1].endswith(
        ", and no worker answers: are they stopped?"
    )
    assert ended("hung", None, stacks={0: WAITS, 1: ""})[1].endswith("12 steps, and does not answer")


def test_a_hang_after_one_step_may_be_a_long_step():
    long = Watched("hung", None, 9.0, (Heartbeat(0, 1, 100, 1),))
    assert ended(workers=1, watched=long)[1].endswith(
        "after 1 steps; if its steps take longer than that: --hang"
    )


def test_fewer_steps_outweigh_where_a_worker_stands():
    beats = (Heartbeat(0, 11, 100, 1), Heartbeat(1, 12, 101, 1))
    _, reason = ended(watched=Watched("hung", None, 9.0, beats), stacks={0: WAITS, 1: SLEEPS})
    assert "worker 0 of 2 is behind after 11 steps" in reason


def test_a_timeout_says_how_far_it_came():
    assert ended("timeout", None) == (
        "timeout",
        "not finished within 10 min 0 s: worker 0 of 2 had done 12 steps",
    )


def test_a_loss_that_is_not_a_number_is_divergence_not_success():
    records = (WorkerRecord(1, 2, samples(0.1, float("nan")), {}),)
    assert ended(endings=ENOUGH, records=records) == (
        "diverged",
        "worker 1 of 2: the loss became nan at step 2",
    )


def test_a_script_that_never_steps_is_said_to():
    assert ended(code=0, watched=Watched("exited", 0, 9.0, ())) == (
        "short",
        "the script ended without one optimizer step on any of 2 workers",
    )
    returned = (Ending(0, "returned", 0), Ending(1, "returned", 0))
    assert "without one measured step" in ended(code=0, endings=returned)[1]


def test_steps_that_were_taken_are_not_denied_when_a_worker_leaves_without_a_word():
    assert ended(code=0, watched=Watched("exited", 0, 9.0, BEATS)) == (
        "crashed",
        "worker 0 of 2 left after 12 steps without a word (os._exit?), and what was measured went with it",
    )


ROOT = "Root Cause (first observed failure):\n rank : 0 (local_rank: 0)\n exitcode : 1 (pid: 5)"
ECHO = "gloo: Connection closed by peer"


def test_who_left_without_a_word_is_named_before_the_one_that_noticed():
    reason = ended(failures=(failure(0, message=ECHO),), log=ROOT)[1]
    left, noticed = reason.split("; ")
    assert left == f"worker 1 of 2 left after {BEATS[1].steps} steps without a word (os._exit?)"
    assert noticed.startswith(f"worker 0 of 2: RuntimeError: {ECHO}")


def test_who_ended_with_exit_code_0_before_the_others_is_named_first():
    reason = ended(failures=(failure(0, message=ECHO),), log=ROOT, endings=(Ending(1, "returned", 3),))[1]
    left, noticed = reason.split("; ")
    assert left == "worker 1 of 2 ended with exit code 0 after 3 steps, before the others"
    assert noticed.startswith(f"worker 0 of 2: RuntimeError: {ECHO}")


def test_who_was_ended_by_the_launcher_did_not_leave():
    told = f"Sending process {BEATS[1].pid} closing signal SIGTERM\n{ROOT}"
    reason = ended(failures=(failure(0, message=ECHO),), log=told)[1]
    assert reason.startswith(f"worker 0 of 2: RuntimeError: {ECHO}")
    assert "os._exit" not in reason


def test_what_a_worker_said_last_before_its_first_step_is_the_reason():
    log = "Root Cause (first observed failure):\n rank : 0 (local_rank: 0)\n exitcode : 2 (pid: 5)"
    said = {0: "usage: train.py\ntrain.py: error: unrecognized arguments: --bogus\n"}
    reason = ended(code=2, log=log, said=said, watched=Watched("exited", 2, 9.0, ()))[1]
    assert reason.endswith("with code 2 after 0 steps: train.py: error: unrecognized arguments: --bogus")


def test_a_port_in_use_is_called_that():
    message = "The server socket has failed to listen. port: 29500, code: -98, name: EADDRINUSE"
    assert "the port 29500 is in use" in ended(failures=(failure(0, "DistNetworkError", message),))[1]
    assert "a port is in use" in ended(log="RuntimeError: Address already in use")[1]


def test_workers_that_never_came_are_counted():
    assert ended(code=0, endings=ENOUGH[:1])[1] == "1 of 2 workers took part and ended (exit code 0)"


def test_more_workers_than_asked_for_are_not_the_point_that_was_asked_for():
    state, reason = ended(code=0, workers=1, endings=ENOUGH)
    assert (state, reason) == ("crashed", "2 workers took part where 1 was asked for")


def test_a_launcher_that_was_killed_is_said_to():
    text = "the launcher was killed by SIGKILL, and its workers with it"
    assert ended(watched=Watched("exited", -9, 9.0, BEATS)) == ("crashed", text)
    assert ended(watched=Watched("exited", -9, 9.0, BEATS), memory_kills=1)[0] == "oom"
    log = "noise\nhost 2 of 4: its launcher was killed by SIGKILL\n"
    which = "host 2 of 4: its launcher was killed by SIGKILL, and its workers with it"
    assert ended(watched=Watched("exited", -9, 9.0, BEATS), log=log) == ("crashed", which)


def test_an_end_without_any_word_shows_the_last_line_of_the_log():
    assert ended(code=2, log="noise\nNo module named torch\n\n")[1].endswith(
        "(exit code 2): No module named torch"
    )


# ------------------------------------------------------------------ a whole study, replayed


@pytest.fixture
def recorded(tmp_path):
    """A study folder as a launcher would have left it: 1 and 2 workers, steps of 100 and 80 ms."""
    folder = StudyFolder(tmp_path / "recorded")
    for trial, step_ms in ((PLAN.trials[0], 100), (PLAN.trials[1], 80)):
        path = folder.trial(trial.id)
        path.mkdir(parents=True)
        for rank in range(trial.point.workers):
            lines = [f'{{"record": "header", "rank": {rank}, "world": {trial.point.workers}}}']
            lines += [
                f'{{"record": "step", "k": {k}, "end_s": {k}, "step_s": {step_ms / 1000}, "exchanges": [[0.0, 0.0]]}}'
                for k in range(2, 28)
            ]
            lines.append('{"record": "end", "reason": "enough", "steps": 27}')
            (path / f"worker-{rank}.jsonl").write_text("\n".join(lines))
        commit(folder, result(trial), started="then")
    return folder.root


class Counting:
    """Hears how many trials are left whenever one begins or ends."""

    def __init__(self):
        self.heard = []

    def started(self, trial, progress):
        self.heard.append(len(progress.missing))

    def stepped(self, trial, beats):
        return None

    def skipped(self, point, why):
        raise AssertionError(f"{point.id} was left out: {why}")

    def ended(self, result, progress):
        self.heard.append(len(progress.missing))


def replay(tmp_path, recorded, study, refusal=None, left_out=frozenset(), listener=None):
    package = tmp_path / "some_agent"
    package.mkdir(exist_ok=True)
    launcher = ReplayLauncher(recorded)
    bench = Bench(launcher, "python", 1, package, None, FakeClock(), refusal=refusal, left_out=left_out)
    folder = StudyFolder(tmp_path / "new")
    done = run_study(folder, study, plan_study(study), bench=bench, listener=listener or Silent())
    by_name = sorted(
        done.results, key=lambda result: result.trial.id
    )  # this clock always shows the same date
    assert tuple(by_name) == read_results(folder)
    return done.stopped, tuple(by_name)


def test_a_replayed_study_settles_and_runs_nothing_twice(tmp_path, recorded):
    stopped, results = replay(tmp_path, recorded, STUDY)
    assert stopped is None
    assert [r.state for r in results] == ["ok"] * 6  # three equal launches settle each of two points
    assert replay(tmp_path, recorded, STUDY)[1] == results


def test_a_wider_study_keeps_what_it_has(tmp_path, recorded):
    _, before = replay(tmp_path, recorded, replace(STUDY, workers=(1,)))
    _, after = replay(tmp_path, recorded, STUDY)
    assert after[: len(before)] == before
    assert {r.trial.point.workers for r in after} == {1, 2}


def test_a_failing_point_does_not_stop_the_others(tmp_path, recorded):
    _, results = replay(tmp_path, recorded, replace(STUDY, workers=(1, 2, 4)))
    states = {(r.trial.point.workers, r.state) for r in results}
    assert states == {(1, "ok"), (2, "ok"), (4, "crashed")}
    assert sum(r.trial.point.workers == 4 for r in results) == 2


def test_a_first_run_that_dies_before_its_first_step_stops_the_study(tmp_path, recorded):
    never = replace(STUDY, workers=(4, 8))
    stopped, results = replay(tmp_path, recorded, never)
    assert [r.trial.id for r in results] == ["w4-1"]
    assert stopped == (
        "at once: w4-1 ended before its first step, so the other 9 runs are left out (--keep-going runs them)"
    )
    stopped, results = replay(tmp_path, recorded, replace(never, keep_going=True))
    assert stopped is None
    assert {r.trial.id for r in results} == {"w4-1", "w4-2", "w8-1", "w8-2"}


def test_a_first_run_that_dies_in_its_warm_up_does_not_stop_the_study(tmp_path, recorded):
    beat = struct.pack("<QdQQ", 3, 0.0, 1, 1)
    first = StudyFolder(recorded).trial(PLAN.trials[0].id)
    shutil.rmtree(first)
    first.mkdir()
    dead = result(PLAN.trials[0], state="crashed", reason="worker 0: boom after 3 steps")
    (first / "heartbeat-0").write_bytes(beat)
    commit(StudyFolder(recorded), dead, started="then")
    stopped, results = replay(tmp_path, recorded, STUDY)
    assert stopped is None
    assert {r.trial.point.workers for r in results} == {1, 2}


def test_trials_that_cannot_be_started_are_left_out_and_the_others_run(tmp_path, recorded):
    def refusal(trial):
        return "needs 2 nodes, 1 is here" if trial.point.workers == 2 else None

    stopped, results = replay(tmp_path, recorded, STUDY, refusal)
    assert {r.trial.point.workers for r in results} == {1}
    assert stopped == "before run w2-1, which needs 2 nodes, 1 is here; 5 runs left out"
    assert {r.trial.point.workers for r in replay(tmp_path, recorded, STUDY)[1]} == {1, 2}


def test_what_cannot_run_on_these_nodes_is_not_waited_for(tmp_path, recorded):
    listener, study = Counting(), replace(STUDY, workers=(1,), repeats=2, backends=("gloo", "nccl"))
    refused = frozenset({"w1-nccl"})
    stopped, results = replay(tmp_path, recorded, study, _refusal_of(refused), refused, listener)
    assert [result.trial.id for result in results] == ["w1-gloo-1", "w1-gloo-2"]
    assert listener.heard == [2, 1, 1, 0]
    assert stopped == "before run w1-nccl-1, which is left out; 2 runs left out"


def _refusal_of(points):
    return lambda trial: "is left out" if trial.point.id in points else None


def test_a_budget_stops_before_the_trial_that_would_exceed_it(tmp_path, recorded):
    stopped, results = replay(tmp_path, recorded, replace(STUDY, budget_device_s=5.0))
    assert results == ()
    assert "0 of 5 device seconds are spent" in stopped
