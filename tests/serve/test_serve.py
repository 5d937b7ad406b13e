"""`paceline serve`: the same page while a study runs, to whoever has the token, and nothing else."""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from paceline.analysis.json_file import ANALYSIS_FORMAT
from paceline.cli.verbs import serve as serve_cmd
from paceline.core.json_data import plain_data
from paceline.serve.folders import confined, studies_under
from paceline.serve.listing import PER_PAGE, listing
from paceline.serve.standing import Watch, Watches
from paceline.store.lock import locked
from paceline.store.paths import StudyFolder
from tests.support.desk import DESK, desk, environment
from tests.support.report_sample import told

RECORDED = Path(__file__).parents[1] / "recorded" / "mnist-1-2"
TRIALS = sorted(path.name for path in (RECORDED / "trials").iterdir())
HOSTILE = "<script>alert(1)"
WAIT_S = 90
pytest.importorskip("starlette", reason="starlette is not installed: pip install 'paceline[serve]'")
pytest.importorskip("sse_starlette", reason="sse-starlette is not installed: pip install 'paceline[serve]'")


def study_at(path, *, trials=TRIALS):
    """A copy of the recorded study with these of its trials."""
    path.mkdir(parents=True)
    for name in ("study.toml", "plan.json"):
        shutil.copy(RECORDED / name, path / name)
    for trial in trials:
        shutil.copytree(RECORDED / "trials" / trial, path / "trials" / trial)
    return path


def without_commit(path, trial):
    """The trial as it is while it runs: everything but its trial.json."""
    shutil.copytree(RECORDED / "trials" / trial, path / "trials" / trial)
    (path / "trials" / trial / "trial.json").unlink()


# ---------------------------------------------------------------- what lies in a folder


def test_a_study_is_found_by_its_name_and_a_folder_of_studies_by_paths_below_it(tmp_path):
    study_at(tmp_path / "a" / "deep")
    study_at(tmp_path / "b", trials=())
    (tmp_path / "empty").mkdir()
    assert {found.name for found in studies_under(tmp_path)} == {"a/deep", "b"}
    assert [found.name for found in studies_under(tmp_path / "b")] == ["b"]
    assert studies_under(tmp_path / "empty") == ()
    assert studies_under(tmp_path / "a" / "deep" / "trials") == ()


def test_what_a_link_leads_to_outside_is_not_there(tmp_path):
    outside = study_at(tmp_path / "outside")
    served = tmp_path / "served"
    served.mkdir()
    (served / "linked").symlink_to(outside)
    (served / "odd").mkdir()
    (served / "odd" / "analysis.json").symlink_to("/etc/passwd")
    (served / "loop").symlink_to(served / "loop")
    assert studies_under(served) == ()
    assert not confined(served / "linked" / "study.toml", served)
    assert not confined(served / ".." / "outside", served)
    assert not confined(served / "loop", served)


def test_trials_that_lead_outside_are_named_and_left_out(tmp_path):
    own = study_at(tmp_path / "served" / "s", trials=TRIALS[:-1])
    (own / "trials" / TRIALS[-1]).symlink_to(RECORDED / "trials" / TRIALS[-1])
    trial = own / "trials" / TRIALS[0]
    (trial / "worker-0.jsonl").unlink()
    (trial / "worker-0.jsonl").symlink_to("/etc/passwd")
    html = serve_cmd.fresh_page(tmp_path / "served", own)
    for name in (TRIALS[0], TRIALS[-1]):
        assert f"{name} cannot be read and is left out" in html


def test_a_trial_counts_when_it_is_committed(tmp_path):
    own = study_at(tmp_path / "s", trials=TRIALS[:2])
    without_commit(own, TRIALS[2])
    watch = Watch(studies_under(own)[0])
    before = watch.standing()
    assert (before.complete, before.planned, before.text) == (2, 6, "2 of 6 runs")
    shutil.copy(RECORDED / "trials" / TRIALS[2] / "trial.json", own / "trials" / TRIALS[2] / "trial.json")
    after = watch.standing()
    assert (after.complete, after.running) == (3, False)
    assert before.mark != after.mark
    assert watch.standing().mark == after.mark
    shutil.rmtree(own / "trials" / TRIALS[2])
    assert watch.standing().complete == 2


def test_while_a_study_runs_its_trial_step_and_time_left_are_told_and_its_page_says_so_far(tmp_path):
    own = study_at(tmp_path / "s", trials=TRIALS[:2])
    without_commit(own, TRIALS[2])
    (own / "trials" / TRIALS[2] / "heartbeat-0").write_bytes(struct.pack("<QdQQ", 12, 0.0, 1, 1))
    study = studies_under(tmp_path / "s")[0]
    assert "so far" not in serve_cmd.fresh_page(tmp_path / "s", own)
    idle = Watch(study).standing()
    assert (idle.now, idle.eta_s) == (None, None)
    with locked(StudyFolder(own)):
        seen = Watch(study).standing()
        html = serve_cmd.fresh_page(tmp_path / "s", own)
    assert seen.text == "2 of 6 runs, running"
    assert seen.now.startswith(f"{TRIALS[2]}, step 12, about ")
    assert 10 < seen.eta_s < 60  # four of six seconds each
    assert "left" in seen.now
    assert "So far: " in html
    assert "so far: runs are still being measured" in html
    assert idle.mark != seen.mark  # or the page would stay as it was when the study ends


def test_a_study_of_which_every_run_failed_looks_failed(tmp_path):
    own = study_at(tmp_path / "s", trials=TRIALS[:1])
    file = own / "trials" / TRIALS[0] / "trial.json"
    told = json.loads(file.read_text()) | {"state": "crashed", "reason": "worker 0 raised ValueError"}
    file.write_text(json.dumps(told))
    found = listing(studies_under(own), Watches(), chosen="s", page=1).rows[0]
    assert (found.failed, found.standing) == (True, "1 of 6 runs, all failed")
    assert 'class="verdict nothing"' in serve_cmd.fresh_page(tmp_path / "s", own)
    fine = study_at(tmp_path / "t", trials=TRIALS[:1])
    assert not listing(studies_under(fine), Watches(), chosen="t", page=1).rows[0].failed


def test_the_list_is_paged_and_an_odd_page_is_the_nearest_one(tmp_path):
    for i in range(PER_PAGE + 1):
        study_at(tmp_path / f"s{i:03}", trials=())
    studies = studies_under(tmp_path)
    first, last = (listing(studies, Watches(), chosen="s000", page=page) for page in (-5, 99))
    assert (len(first.rows), first.page, first.pages) == (PER_PAGE, 1, 2)
    assert (len(last.rows), last.page, last.studies) == (1, 2, PER_PAGE + 1)


# ---------------------------------------------------------------- half-written folders


def _cut(path):
    path.write_text(path.read_text()[: len(path.read_text()) // 2])


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda own: (own / "study.toml").write_text("workers = [1,"), "Nothing can be shown yet"),
        (lambda own: (own / "study.toml").unlink(), "has no study.toml"),
        (lambda own: shutil.rmtree(own / "trials"), "Nothing was measured"),
        (lambda own: _cut(own / "trials" / TRIALS[0] / "trial.json"), "cannot be read and is left out"),
        (lambda own: _cut(own / "trials" / TRIALS[0] / "worker-0.jsonl"), "workers"),
        (lambda own: (own / "plan.json").write_text("{"), "Use 2 workers"),
        (lambda own: (own / "analysis.json").write_text("{"), "Use 2 workers"),
    ],
    ids=["toml cut", "no toml", "no trials", "trial cut", "worker cut", "plan cut", "analysis cut"],
)
def test_a_half_written_study_gives_what_there_is(tmp_path, spoil, said):
    own = study_at(tmp_path / "s")
    spoil(own)
    assert serve_cmd.kept_page(tmp_path, own) is None
    assert said in serve_cmd.fresh_page(tmp_path, own)


def test_an_analysis_that_is_later_than_every_trial_is_taken_as_it_is(tmp_path):
    own = study_at(tmp_path / "s")
    data = {
        "format": ANALYSIS_FORMAT, "verdict": plain_data(told("From the file.")), "points": [], "findings": [],
        "source": {"paceline": serve_cmd.__version__, "trials": len(TRIALS)},
    }  # fmt: skip
    (own / "analysis.json").write_text(json.dumps(data))
    later = time.time() + 10
    os.utime(own / "analysis.json", (later, later))
    assert "From the file." in serve_cmd.fresh_page(tmp_path, own)
    assert "From the file." in serve_cmd.kept_page(tmp_path, own)
    os.utime(own / "trials" / TRIALS[0] / "trial.json", (later + 1, later + 1))
    assert "Use 2 workers" in serve_cmd.fresh_page(tmp_path, own)


# ---------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server over three studies, one of them with a hostile name; its address and its folder."""
    root = tmp_path_factory.mktemp("serve") / "root"
    study_at(root / "growing", trials=[*TRIALS[:1], *TRIALS[3:4]])
    study_at(root / HOSTILE)
    study_at(root.parent / "secret")
    (root / "way-out").symlink_to(root.parent / "secret")
    started = subprocess.Popen(
        [*DESK, "serve", str(root)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    said = "".join(started.stdout.readline() for _ in range(5))
    yield re.search(r"http://\S+", said)[0], root, said
    started.send_signal(signal.SIGINT)
    _, complaints = started.communicate(timeout=WAIT_S)
    assert complaints == "Ended.\n"
    assert started.returncode == 0


def answer(url):
    """Status, headers and text of a GET."""
    try:
        with urllib.request.urlopen(url, timeout=WAIT_S) as got:
            return got.status, got.headers, got.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.headers, refused.read().decode()


def test_it_listens_here_only_and_says_how_to_reach_it_from_elsewhere(served):
    url, _, said = served
    port = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/[\w-]{32}/", url)[1]
    assert f"ssh -L {port}:127.0.0.1:{port} " in said


@pytest.mark.parametrize(
    "path",
    [
        "/", "/wrong/", "/wrong/list", "/wrong/events", "/wrong/frame.js", "/x", "TOKEN/nothing", "TOKEN/page.css",
        "TOKEN/report", "TOKEN/report?study=..", "TOKEN/report?study=way-out", "TOKEN/report?study=../secret",
        "TOKEN/report?study=%2e%2e%2fsecret", "TOKEN/report?study=/etc", "TOKEN/report?study=growing/../../secret",
        "TOKEN/..%2f..%2fsecret", "TOKEN/events?study=..%2fsecret", "TOKEN/../../etc/passwd", "tOKEN/",
    ],
)  # fmt: skip
def test_everything_else_is_the_same_nothing(served, path):
    url, _, _ = served
    base, token = url.rstrip("/").rsplit("/", 1)
    if path.startswith("tOKEN"):
        path = path.replace("tOKEN", f"/{token.swapcase()}")
    status, headers, text = answer(base + path.replace("TOKEN", f"/{token}"))
    assert (status, text) == (404, "There is nothing here.\n")
    assert headers["cache-control"] == "no-store"


def test_every_answer_is_uncached_unreferred_and_under_a_strict_policy(served):
    url, _, _ = served
    for path in ("", "list", "report?study=growing", "frame.js", "frame.css"):
        status, headers, _ = answer(url + path)
        assert status == 200
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'; ")
        assert "server" not in headers
    _, headers, _ = answer(url + "report?study=growing")
    assert "sandbox allow-scripts allow-downloads" in headers["content-security-policy"]
    assert "allow-same-origin" not in headers["content-security-policy"]


def test_a_hostile_name_is_text(served):
    url, _, _ = served
    for path in ("", "list"):
        _, _, text = answer(url + path)
        assert HOSTILE not in text
        assert "&lt;script&gt;alert(1)" in text


def test_a_mistake_is_one_sentence_and_one_thing_to_do(tmp_path):
    done = desk("serve", "nowhere", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (1, 2)
    assert "nowhere is not a folder" in done.stderr
    done = desk("serve", ".", "--host", "256.1.1.1", cwd=tmp_path)
    assert done.returncode == 1
    assert "cannot listen at 256.1.1.1" in done.stderr


def test_without_the_extra_it_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setattr(serve_cmd, "find_spec", lambda name: None if name == "uvicorn" else object())
    with pytest.raises(serve_cmd.PacelineError) as refused:
        serve_cmd.serve(tmp_path)
    assert "needs uvicorn" in refused.value.message
    assert refused.value.hint == "pip install 'paceline[serve]'"


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_quietly_while_somebody_looks(end, tmp_path):
    study_at(tmp_path / "s", trials=())
    started = subprocess.Popen(
        [*DESK, "serve", str(tmp_path)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    url = re.search(r"http://\S+", "".join(started.stdout.readline() for _ in range(5)))[0]
    with urllib.request.urlopen(f"{url}events?study=s", timeout=WAIT_S) as events:
        assert events.readline() == b"event: study\r\n"
        urllib.request.urlopen(f"{url}report?study=s", timeout=WAIT_S).read()  # its renderers are at work
        started.send_signal(end)
        _, complaints = started.communicate(timeout=WAIT_S)
    assert (started.returncode, complaints) == (0, "Ended.\n")
