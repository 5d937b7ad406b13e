"""Tables measured anywhere: what is understood, what is refused, and that nothing is guessed silently."""

import math
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.analysis.json_file import analysis_data
from paceline.analysis.question import Ask
from paceline.analysis.table import settings_of, table_analysis
from paceline.core.errors import PacelineError, TableError
from paceline.table.columns import column
from paceline.table.read import read_settings, read_table


@pytest.mark.parametrize(
    ("heading", "quantity", "factor"),
    [
        ("gpus", "workers", 1), ("workers", "workers", 1), ("n", "workers", 1), ("ranks", "workers", 1),
        ("# GPUs", "workers", 1), ("nodes", "nodes", 1), ("time", "time", 1), ("epoch_s", "epoch_s", 1),
        ("step_ms", "step_s", 1e-3), ("seconds", "time", 1), ("throughput", "throughput_per_s", 1),
        ("img/s", "throughput_per_s", 1), ("images/sec", "throughput_per_s", 1), ("batch", "batch", 1),
        ("per_gpu_batch", "per_worker_batch", 1), ("Batch size per GPU", "per_worker_batch", 1),
        ("global_batch", "global_batch", 1), ("epochs", "epochs", 1), ("accuracy", "accuracy", 1),
        ("val_acc", "accuracy", 1), ("exchange_s", "exchange_s", 1), ("sync_s", "exchange_s", 1),
        ("comm", "exchange_s", 1),
        ("gradient_bytes", "gradient_bytes", 1), ("params", "parameters", 1), ("samples", "samples", 1),
        ("dataset_size", "samples", 1), ("gpu", "gpu", 1), ("repeat", "repeat", 1), ("Epoch time (min)", "epoch_s", 60),
        ("bandwidth GB/s", "bandwidth", 1e9), ("step_time_s", "step_s", 1), ("n_nodes", "nodes", 1),
    ],
)  # fmt: skip
def test_headings_are_recognised_with_their_unit(heading, quantity, factor):
    found = column(0, heading)
    assert (found.quantity, found.factor) == (quantity, factor)


@pytest.mark.parametrize(
    ("cell", "seconds"),
    [("5:19", 319), ("01:38:30", 5910), ("83 ms", 0.083), ("2.5 h", 9000), ("1,234", 1234)],
)
def test_times_are_read_as_people_write_them(cell, seconds):
    assert read_table(f"gpus\ttime\n1\t{cell}").rows[0].job_s == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        "gpus,step_ms\n1,100\n2,110\n",
        "step_ms;gpus\n100;1\n110;2\n",
        "gpus\tstep_ms\n1\t100\n2\t110\n",
        "| GPUs | step_ms |\n|---:|---|\n| 1 | 100 |\n| 2 | 110 |\n",
        "gpus   step_ms\n1      100\n2      110\n",
        "# measured on Monday\ngpus step_ms\n1 100\n2 110\n",
        "\ufeffgpus,step_ms\r\n1,100\r\n2,110\r\n",
    ],
)
def test_every_layout_gives_the_same_rows(text):
    table = read_table(text)
    assert [(row.workers, row.step_s) for row in table.rows] == [(1, 0.1), (2, pytest.approx(0.11))]
    assert table.time_kind == "step"


def test_a_semicolon_table_may_use_the_decimal_comma():
    assert read_table("gpus;step_ms\n1;83,5\n").rows[0].step_s == pytest.approx(0.0835)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("gpus,time\n", "no rows"),
        ("a,b\n1,2\n", "number of workers"),
        ("gpus\n1\n", "time or a throughput"),
        ("gpus,time\nx,3\n", "row 2, column 'gpus'"),
        ("gpus,time\n1,-3\n", "row 2, column 'time'"),
        ("gpus,time\n1,soon\n", "row 2, column 'time'"),
        ("gpus,time\n1.5,3\n", "row 2, column 'gpus'"),
        ("gpus,time\n1,inf\n", "row 2, column 'time'"),
        ("gpus,time\n1,3,4\n", "row 2 has 3 cells"),
        ("gpus,workers,time\n1,1,2\n", "both read as"),
        ("gpus,nodes,time\n1,2,3\n", "1 workers on 2 nodes"),
        ("gpus,per_gpu_batch,global_batch,time\n2,32,999,1\n", "not a global batch of 999"),
        ("gpus,time,accuracy\n1,3,170\n", "row 2, column 'accuracy'"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_its_place_and_a_fix(text, said):
    with pytest.raises(TableError) as caught:
        read_table(text)
    assert said in caught.value.message
    assert caught.value.hint


def test_what_was_understood_is_said_including_what_was_not_used():
    said = read_table("gpus,time,remarks\n1,3,cold\n").understood
    assert said[0] == "'gpus': number of workers"
    assert "whole work" in said[1]
    assert said[2] == "'remarks': not used"


def test_an_unknown_cell_is_unknown_and_a_failed_one_is_a_state():
    rows = read_table("gpus,step_s,accuracy\n1,1.0,-\n2,OOM,n/a\n").rows
    assert rows[0].accuracy is None
    assert (rows[1].state, rows[1].step_s) == ("oom", None)


def test_settings_need_no_time():
    assert read_settings("workers,nodes,per_worker_batch\n8,2,32\n").rows[0].global_batch == 256


def test_the_batch_and_the_global_batch_imply_each_other():
    assert read_table("gpus,global_batch,step_s\n4,128,1\n").rows[0].per_worker_batch == 32
    assert read_table("gpus,batch,step_s\n4,32,1\n").rows[0].global_batch == 128


@pytest.mark.alone
def test_a_hundred_thousand_rows_are_analysed_in_five_seconds():
    text = "workers,per_worker_batch,step_ms\n" + "".join(
        f"{1 + i % 4},32,{100 + (i * 7919) % 13}\n" for i in range(100_000)
    )
    start = time.perf_counter()
    analysis = table_analysis(read_table(text))
    assert time.perf_counter() - start < 5.0
    assert [p.trials for p in analysis.points] == [25_000] * 4


_cells = st.one_of(
    st.integers(-3, 5000).map(str),
    st.floats().map(str),
    st.sampled_from(
        ["", "-", "n/a", "5:19", "83 ms", "OOM", "98 %", "1e400", "²", "1,5", "x", "∞", "0", "1_000"]
    ),
)
_headings = st.sampled_from(
    ["gpus", "nodes", "step_ms", "epoch_s", "time", "throughput", "batch", "global_batch", "epochs", "acc", "comm",
     "compute", "params", "samples", "gpu", "lr", "steps", "bandwidth (GB/s)", "plateau", "remarks", ""]
)  # fmt: skip


def _numbers(data):
    if isinstance(data, dict):
        for value in data.values():
            yield from _numbers(value)
    elif isinstance(data, list):
        for value in data:
            yield from _numbers(value)
    elif isinstance(data, float):
        yield data


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_fuzzed_table_gives_a_clear_error_or_an_analysis_without_nan(data):
    heads = data.draw(st.lists(_headings, min_size=1, max_size=6))
    rows = data.draw(st.lists(st.lists(_cells, min_size=len(heads), max_size=len(heads)), max_size=5))
    text = "\n".join(",".join(line) for line in [heads, *rows])
    try:
        analysis = table_analysis(read_table(text))
    except PacelineError:
        return
    assert all(math.isfinite(x) for x in _numbers(analysis_data(analysis)))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(st.integers(1, 64), st.integers(1, 4), st.sampled_from([8, 32]), st.floats(1e-4, 1e4)),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(["step_s", "epoch_s", "job_s", "throughput"]),
)
def test_any_positive_times_give_ordered_intervals(rows, name):
    text = f"workers,nodes,batch,{name}\n" + "".join(f"{n},{min(m, n)},{b},{t!r}\n" for n, m, b, t in rows)
    analysis = table_analysis(read_table(text))
    for projection in analysis.projections:
        assert 0 < projection.time_s.low <= projection.time_s.value <= projection.time_s.high
    assert all(math.isfinite(x) for x in _numbers(analysis_data(analysis)))


def test_a_long_table_is_widened_and_counts_in_device_names_do_not_split_a_series():
    text = (
        "model,gpu,n_gpus,per_gpu_batch,metric,value,unit\n"
        "net,A100 SXM4,1,32,training_throughput,100,img/s\n"
        "net,2x A100 SXM4,2,32,training_throughput,190,img/s\n"
        "net,A100 SXM4,1,32,colour,7,\n"
    )
    analysis = table_analysis(read_table(text))
    assert [p.speedup.value for p in analysis.points] == [1.0, pytest.approx(1.9)]


def test_a_point_of_a_series_that_was_not_measured_is_refused():
    text = "model,gpus,batch,step_s\na,1,32,1\na,2,32,1.1\nb,1,32,1\nb,2,32,1.1\n"
    at = settings_of(read_settings("model,gpus,batch\nb,4,32\nc,4,32\n"))
    found = table_analysis(read_table(text), ask=Ask(at=at))
    assert [p.explanation[0] for p in found.projections] == ["b"]
    assert [r.rule for r in found.refusals] == ["series"]
