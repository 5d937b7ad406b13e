"""The sbatch script, and what Slurm says of a job: text from data, data from text. No Slurm is needed."""

import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.core.errors import UsageError
from paceline.launch.slurm.look import answers, short_lines
from paceline.records import Allocation, Study, Workload
from paceline.slurm.reason import reason_text, refusal_hint
from paceline.slurm.script import Job, checked_allocation, sbatch_script, signal_lead_s, time_text
from paceline.slurm.state import (
    JobState,
    ended_text,
    job_from_sacct,
    job_from_scontrol,
    job_of_sbatch,
    node_address,
    node_trouble,
    phase,
    status_text,
)
from paceline.store.study_file import read_study, write_study

GOLDEN = Path(__file__).parents[1] / "golden" / "job.sbatch"
JOB = Job(
    "paceline-train-3fa2c1",
    "/scratch/me/paceline-train",
    "/opt/env/bin/python",
    4,
    8,
    "/scratch/me/paceline-train/slurm",
)
FULL = Allocation(
    partition="gpu",
    account="phys-42",
    time_s=2 * 3600.0,
    gres="gpu:a100:4",
    constraint="ib&a100",
    exclusive=True,
    modules=("cuda/12.4", "gcc 13"),
    prologue=("source /opt/env.sh", "export NCCL_DEBUG=WARN"),
    container="image.sif",
    options=("qos=high", "mail-type=END,FAIL", 'comment=my study\'s "first" try', "hold"),
)
HOSTILE = [
    "a b",
    "$(touch x)",
    "`touch x`",
    "a;touch x",
    "it's",
    'say "x"',
    "a\\b",
    "--x",
    "#c",
    "ä",
    "a*",
    "~",
    "!x",
]


def test_the_whole_script_is_the_golden_one(tmp_path):
    made = tmp_path / GOLDEN.name
    made.write_text(sbatch_script(checked_allocation(FULL), JOB))
    assert made.read_text() == GOLDEN.read_text(), f"if this is right: cp {made} {GOLDEN}"


def test_a_request_of_nothing_asks_for_nodes_and_the_ways_it_may_end():
    lines = sbatch_script(Allocation(), replace(JOB, cpus_per_node=None)).splitlines()
    asked = [line.split()[1].partition("=")[0] for line in lines if line.startswith("#SBATCH")]
    assert asked == [
        "--job-name",
        "--nodes",
        "--ntasks-per-node",
        "--output",
        "--open-mode",
        "--requeue",
        "--signal",
    ]


@pytest.mark.parametrize("value", HOSTILE)
def test_the_shell_sees_hostile_names_as_names(value, tmp_path):
    """Everything before exec is run by a real shell; the command it would become is read back word by word."""
    job = replace(JOB, folder=f"/s/{value}", python="/bin/echo")
    text = sbatch_script(Allocation(modules=(value,)), job)
    text = text.replace("if ! ", "if false && ! ")  # echo cannot import
    body = f"module() {{ printf '<%s>' \"$@\"; echo; }}\n{text}"
    done = subprocess.run(["bash", "-c", body], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == f"<load><{value}>\n-m paceline study /s/{value}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("printed", "job"),
    [
        ("12\n", "12"),
        ("12;alpha\n", "12"),
        ("Welcome to the cluster\n12\nThank you\n", "12"),
        ("Your group has 3 jobs\nSubmitted batch job 12\n", "12"),
        ("Thank you\n", None),
        ("", None),
    ],
)
def test_the_number_of_a_job_is_found_beside_what_sites_print(printed, job):
    assert job_of_sbatch(printed) == job


@given(st.text())
def test_no_value_adds_a_line_to_the_script(value):
    asked = Allocation(partition=value, modules=(value,), options=(f"comment={value}",))
    try:
        text = sbatch_script(checked_allocation(asked), JOB)
    except UsageError:
        return
    plain = sbatch_script(Allocation(partition="p", modules=("m",), options=("comment=c",)), JOB)
    assert len(text.splitlines()) == len(plain.splitlines())


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1))
def test_quoting_of_a_request_is_undone_by_reading_it(value):
    text = sbatch_script(Allocation(constraint=value), JOB)
    line = next(line for line in text.splitlines() if line.startswith("#SBATCH --constraint"))
    assert shlex.split(line.removeprefix("#SBATCH "), comments=True) == [f"--constraint={value}"]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (Allocation(partition="a\nb"), "one line"),
        (Allocation(prologue=("a\nb",)), "one line"),
        (Allocation(modules=("",)), "one line"),
        (Allocation(time_s=5.0), "not a time that Slurm can give"),
        (Allocation(options=("N 3",)), "not NAME=VALUE"),
        (Allocation(options=("--qos=x",)), "not NAME=VALUE"),
        (Allocation(options=("nodes=8",)), "decides --nodes itself"),
        (Allocation(options=("wait",)), "decides --wait itself"),
        (Allocation(options=("error=x.log",)), "decides --error itself"),
    ],
)
def test_what_no_script_can_hold_is_refused_by_name(asked, says):
    with pytest.raises(UsageError, match=says):
        checked_allocation(asked)


def test_times_are_written_as_slurm_reads_them_and_never_shortened():
    assert [time_text(s) for s in (60, 61, 5400, 26 * 3600)] == [
        "00:01:00",
        "00:02:00",
        "01:30:00",
        "1-02:00:00",
    ]


def test_the_warning_before_the_limit_leaves_most_of_a_short_time():
    assert [signal_lead_s(s) for s in (None, 7200.0, 120.0, 60.0)] == [60, 60, 30, 15]


def test_study_toml_keeps_what_is_asked_of_slurm(tmp_path):
    for slurm in (None, Allocation(), FULL):
        asked = Study(Workload("module", "train"), slurm=slurm)
        write_study(tmp_path / "study.toml", asked)
        assert read_study(tmp_path / "study.toml") == asked


# ------------------------------------------------------------------ what Slurm says

SHOWN = (
    "JobId=12 JobName=paceline-t-1 UserId=me(1) Account=(null) JobState={state} Reason={reason} Requeue=1 "
    "Restarts={restarts} BatchFlag=1 ExitCode={code} RunTime=00:09:10 TimeLimit=00:10:00 StartTime=2026-11-15T06:23:08 "
    "NodeList=n[1-2] BatchHost=n1"
)


def shown(state, *, reason="None", restarts=0, code="0:0"):
    return job_from_scontrol("12", SHOWN.format(state=state, reason=reason, restarts=restarts, code=code))


def test_a_job_is_read_from_scontrol():
    assert shown("RUNNING") == JobState(
        "12", "RUNNING", None, 0, 550.0, 600.0, "n[1-2]", 0, "2026-11-15T06:23:08", "paceline-t-1"
    )
    assert shown("RUNNING", code="0:15").exit_code == -15
    assert job_from_scontrol("12", "") is None


def test_unlimited_time_is_no_time():
    assert job_from_scontrol("1", "JobId=1 JobState=RUNNING TimeLimit=UNLIMITED").limit_s is None


@pytest.mark.parametrize(
    ("state", "means"),
    [
        ("PENDING", "waiting"),
        ("REQUEUED", "waiting"),
        ("COMPLETING", "running"),
        ("NODE_FAIL", "over"),
        ("GONE", "over"),
    ],
)
def test_every_state_is_waiting_running_or_over(state, means):
    assert phase(JobState("1", state)) == means


def test_accounts_are_read_where_the_controller_has_forgotten():
    text = "12|CANCELLED by 1000|0:15\n12.batch|CANCELLED|0:15\n13|COMPLETED|0:0\n"
    assert job_from_sacct("12", text) == JobState("12", "CANCELLED", exit_code=-15)
    assert job_from_sacct("14", text) is None


@pytest.mark.parametrize("limit", ["1", "00:01:00"])
def test_accounts_of_long_ago_still_tell_of_a_time_limit(limit):
    """Minutes where job completions are kept, Slurm's notation where accounts are."""
    job = job_from_sacct("12", f"12|FAILED|130:0|00:00:33|{limit}\n12.batch|FAILED|130:0|00:00:33|\n")
    assert (job.run_s, job.limit_s) == (33.0, 60.0)
    assert "came near its time limit of 60.0 s" in status_text(job)


def test_who_waits_is_told_why():
    text = status_text(shown("PENDING", reason="Resources", restarts=1))
    assert text.startswith(
        "job 12 waits (Resources: nodes are not free yet), put back into the queue once; Slurm expects it to start"
    )


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        ("PartitionTimeLimit", "PartitionTimeLimit: it asks for more --time than its partition gives"),
        (
            "ReqNodeNotAvail,_UnavailableNodes:n[1-2]",
            "ReqNodeNotAvail, UnavailableNodes:n[1-2]: nodes that it needs",
        ),
        ("QOSMaxWallDurationPerJobLimit", "QOSMaxWallDurationPerJobLimit: a limit of your QOS"),
        ("SomethingNew", "SomethingNew"),
    ],
)
def test_a_reason_keeps_slurms_word_and_says_what_it_means(reason, says):
    assert reason_text(reason).startswith(says)


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (shown("TIMEOUT"), "job 12 reached its time limit of 10 min 0 s: 3 runs are left"),
        (shown("FAILED", code="130:0"), "job 12 came near its time limit of 10 min 0 s and left in order"),
        (replace(shown("FAILED", code="130:0"), run_s=60.0), "job 12 was told to stop, and left in order"),
        (shown("FAILED", code="1:0"), "job 12 ended FAILED with exit code 1"),
        (shown("NODE_FAIL"), "job 12 lost a node"),
        (JobState("12", "GONE"), "job 12 is over; Slurm no longer knows how it ended"),
    ],
)
def test_an_end_is_told_with_its_cause_and_what_is_kept(job, says):
    assert ended_text(job, left=3).startswith(says)
    assert ended_text(job, left=3).endswith("what was measured is kept")


@pytest.mark.parametrize(
    ("said", "flag"),
    [
        (
            "invalid partition specified: nope; Batch job submission failed: Invalid partition name",
            "--partition",
        ),
        ("Batch job submission failed: Invalid feature specification", "--constraint"),
        ("Invalid generic resource (gres) specification", "--gres"),
        (
            "Batch job submission failed: Invalid account or account/partition combination specified",
            "sacctmgr",
        ),
        ("Batch job submission failed: Requested node configuration is not available", "--nodes"),
        ("Batch job submission failed: Invalid job array specification", "--array 0"),
        ("Batch job submission failed: Something new", "sinfo lists what there is"),
    ],
)
def test_a_refusal_of_sbatch_names_what_to_correct(said, flag):
    assert flag in refusal_hint(said)


def test_answers_of_many_nodes_are_read_from_mixed_short_lines():
    said = [{"facts": {"node": node, "beside": ["x" * 3000]}} for node in range(3)]
    lines = [line for node in range(3) for line in short_lines(node, said[node])]
    assert max(map(len, lines)) < 500
    mixed = sorted(lines, key=lambda line: line[::-1])
    assert sorted(map(str, answers("\n".join(["noise", *mixed])))) == sorted(map(str, said))


def test_an_answer_with_a_piece_missing_is_no_answer():
    lines = short_lines(0, {"a": "x" * 3000})
    assert answers("\n".join(lines[:2] + lines[3:])) == []


def test_a_node_that_does_not_answer_is_in_trouble():
    assert node_trouble("NodeName=n1 State=DOWN*+DRAIN ThreadsPerCore=1") == "DOWN*+DRAIN"
    assert node_trouble("NodeName=n1 State=ALLOCATED* x") == "ALLOCATED*"
    assert node_trouble("NodeName=n1 State=ALLOCATED") is None
    assert node_address("NodeName=n1 NodeAddr=10.0.0.1 NodeHostName=x") == "10.0.0.1"
