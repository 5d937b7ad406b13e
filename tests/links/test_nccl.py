"""Output of nccl-tests is read whatever surrounds it, and never with a traceback."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paceline.core.errors import PacelineError, UsageError
from paceline.links.fit import link_from_probe
from paceline.links.nccl import read_nccl_tests
from paceline.links.probe import OPS

HEAD = """# nThread 1 nGpus 1 minBytes 1048576 maxBytes 134217728 step: 2(factor) warmup iters: 1 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid  15784 on  node-a device  0 [0009:01:00] NVIDIA GH200 120GB
#  Rank  1 Group  0 Pid  24926 on  node-b device  0 [0009:01:00] NVIDIA GH200 120GB
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
ROWS = """\
     1048576        262144     float     sum      -1   339.61    3.09    3.09      0   335.85    3.12    3.12      0
     4194304       1048576     float     sum      -1   476.28    8.81    8.81      0   471.14    8.90    8.90      0
    16777216       4194304     float     sum      -1   840.36   19.96   19.96      0   841.25   19.94   19.94      0
"""
TAIL = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 10.64\n#\n"
NAME = "# Collective test starting: all_reduce_perf\n"
WHOLE = NAME + HEAD + ROWS + TAIL


def test_both_columns_of_every_row_are_read():
    probe = read_nccl_tests(WHOLE)
    assert len(probe.times) == 6
    first, second = probe.times[:2]
    assert (first.op, first.workers, first.nodes, first.size_bytes) == ("all_reduce", 2, 2, 1_048_576)
    assert (first.seconds, second.seconds) == (pytest.approx(339.61e-6), pytest.approx(335.85e-6))
    assert (first.repeat, second.repeat) == (0, 1)


def test_it_makes_a_link():
    """From 1 to 16 MiB the time grows by 15.7 MB in 0.503 ms: 31 GB/s."""
    found = link_from_probe(read_nccl_tests(WHOLE).times)
    assert (found.link, found.backend) == ("between", "nccl")
    assert found.bytes_per_s.value == pytest.approx(31e9, rel=0.1)


def test_prefixes_of_mpi_and_messages_of_nccl_are_passed_over():
    noisy = "\n".join(f"[1,0]<stdout>:{line}" for line in WHOLE.splitlines())
    noisy = noisy.replace(
        "[1,0]<stdout>:    16777216", "host:880:887 [0] NCCL INFO 24 coll channels\n    16777216"
    )
    assert read_nccl_tests(noisy).times == read_nccl_tests(WHOLE).times


def test_a_row_that_was_cut_off_is_passed_over():
    cut = WHOLE[: WHOLE.index("840.36") + 4]
    assert {t.size_bytes for t in read_nccl_tests(cut).times} == {1_048_576, 4_194_304}


def test_without_ranks_the_bandwidths_tell_the_workers():
    """8 workers: busbw/algbw = 2·7/8 = 1.75."""
    text = NAME + "1048576 262144 float sum -1 105.9 9.90 17.33 0 105.7 9.92 17.37 0\n"
    text += "33554432 8388608 float sum -1 631.1 53.17 93.05 0 629.9 53.27 93.22 0\n"
    probe = read_nccl_tests(text)
    assert {t.workers for t in probe.times} == {8}
    assert "8 workers" in probe.notes[0]
    assert "taken to be on 1 node; --nodes says otherwise" in probe.notes[1]
    assert len(read_nccl_tests(text, nodes=2).notes) == 1


def test_where_nothing_tells_the_workers_one_is_asked_to_say_it():
    text = NAME + "1024 256 float sum -1 105.9 0.01 0.01 0 105.7 0.01 0.01 0\n"
    with pytest.raises(UsageError, match="lists no ranks"):
        read_nccl_tests(text)
    assert {t.workers for t in read_nccl_tests(text, workers=4).times} == {4}


def test_older_tables_have_no_root_and_an_error_instead_of_a_count():
    text = (
        NAME
        + HEAD.replace("root", "    ")
        + "1048576 262144 float sum 339.61 3.09 3.09 0e+00 335.85 3.12 3.12 N/A\n"
    )
    assert len(read_nccl_tests(text).times) == 2


@pytest.mark.parametrize("op", OPS)
def test_the_name_of_the_test_names_the_collective(op):
    gather = HEAD + "1048576 131072 float none -1 339.61 3.09 1.54 0 335.85 3.12 1.56 0\n"
    assert {t.op for t in read_nccl_tests(f"$ ./build/{op}_perf -b 8 -e 1G\n{gather}").times} == {op}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "holds no row"),
        ("workers,time\n1,2\n", "holds no row"),
        (WHOLE.replace("all_reduce", "alltoall"), "says nothing about gradients"),
        (
            WHOLE.replace("3.09    3.09", "3.09    0.00")
            .split("     4194304")[0]
            .replace("Rank  1", "Other"),
            "nothing was",
        ),
        (HEAD + ROWS, "does not say which collective"),
        ('{"version": 3, "results": [', "not a whole JSON file"),
        ('{"version": 3, "args": ["all_reduce_perf"]}', "holds no row"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(text, why):
    with pytest.raises(UsageError, match=why):
        read_nccl_tests(text)


def test_a_time_that_its_bandwidth_contradicts_is_passed_over_and_told():
    probe = read_nccl_tests(WHOLE.replace("476.28", "47628.0"))
    assert len(probe.times) == 5
    assert "1 times are passed over" in probe.notes[0]


def test_wrong_values_are_told():
    assert "wrong values at 1 sizes" in read_nccl_tests(WHOLE.replace("8.81      0", "8.81      3")).notes[0]


# ---------------------------------------------------------------- what versions print


def times(text, **known):
    return [(t.op, t.workers, t.size_bytes, t.repeat) for t in read_nccl_tests(text, **known).times]


def test_a_time_of_day_at_the_end_of_a_row_is_passed_over():
    stamped = WHOLE.replace("3.12      0\n", "3.12      0  2025-10-28 12:01:02\n")
    assert read_nccl_tests(stamped).times == read_nccl_tests(WHOLE).times


def test_figures_of_single_iterations_are_passed_over():
    """The row of one size: time, bandwidths and wrong values, then four figures, for each column."""
    more = "   335.01   350.02   349.03     1.04"
    row = f"1048576 262144 float sum -1 339.61 3.09 3.09 0 {more} 335.85 3.12 3.12 0 {more}\n"
    found = read_nccl_tests(NAME + HEAD + row).times
    assert [t.seconds for t in found] == [pytest.approx(339.61e-6), pytest.approx(335.85e-6)]


def test_algorithm_protocol_and_channels_after_a_row_are_passed_over():
    row = "1048576 262144 float sum -1 339.61 3.09 3.09 0 335.85 3.12 3.12 0  Direct    SIMPLE          32\n"
    assert len(read_nccl_tests(NAME + HEAD + row).times) == 2


def test_a_text_that_lost_its_hash_signs_is_read_all_the_same():
    assert read_nccl_tests(WHOLE.replace("#", "")).times == read_nccl_tests(WHOLE).times


def test_a_gather_of_the_first_versions_names_no_operation():
    row = "1048576 131072 float 339.61 3.09 1.54 0e+00 335.85 3.12 1.56 0e+00\n"
    assert times("# all_gather_perf\n" + HEAD + row) == [
        ("all_gather", 2, 1_048_576, 0),
        ("all_gather", 2, 1_048_576, 1),
    ]


def test_a_time_without_decimals_is_no_root():
    """8 GiB in 20299 µs are 423 GB/s; the row has no root, and its time is a whole number."""
    row = "8589934592 2147483648 float sum 20299 423.16 423.16 0 20006 429.37 429.37 0\n"
    assert [t.seconds for t in read_nccl_tests(NAME + HEAD + row).times] == pytest.approx(
        [0.020299, 0.020006]
    )


def test_bandwidths_of_four_figures_are_printed_with_one_decimal():
    """1425.0 · 2·71/72 = 2810.4: 72 workers, told by one decimal (and no other count near it is)."""
    row = "8589934592 2147483648 float sum -1 6028.0 1425.0 2810.4 0 6028.0 1425.0 2810.4 0\n"
    assert {t[1] for t in times(NAME + row)} == {72}


def test_several_tests_in_one_text_keep_their_own_workers_and_collectives():
    gather = "1048576 131072 float none -1 339.61 3.09 2.32 0 335.85 3.12 2.34 0\n"
    ranks = "".join(
        f"#  Rank  {r} Group  0 Pid  1{r} on  a device  {r} [0x01] NVIDIA H100\n" for r in range(4)
    )
    second = f"# nThread 1 nGpus 4 minBytes 8\n{ranks}{gather}# Collective test concluded: all_gather_perf\n"
    found = times(WHOLE + second)
    assert {t[:2] for t in found} == {("all_reduce", 2), ("all_gather", 4)}
    assert times(WHOLE + WHOLE)[-1] == ("all_reduce", 2, 16_777_216, 3)


def test_a_test_that_says_nothing_about_an_exchange_is_passed_over_beside_one_that_does():
    both = read_nccl_tests(WHOLE + WHOLE.replace("all_reduce", "sendrecv"))
    assert both.times == read_nccl_tests(WHOLE).times
    assert "sendrecv_perf says nothing" in both.notes[0]


def test_ranks_that_the_list_leaves_out_are_told_by_the_bandwidths():
    """One rank of two is listed, and the bus carries as much as the algorithm: 2(N-1)/N = 1."""
    probe = read_nccl_tests(WHOLE.replace("#  Rank  1", "#  ..."))
    assert {t.workers for t in probe.times} == {2}
    assert "lists 1 ranks; bus over algorithm bandwidth says 2 workers" in probe.notes[0]


def test_processes_that_do_not_know_of_one_another_are_named_with_the_cure():
    alone = WHOLE.replace("Rank  1", "Rank  0").replace("   3.09      0", "   0.00      0")
    alone = alone[: alone.index("     4194304")].replace("3.12      0", "0.00      0")
    with pytest.raises(UsageError, match="1 worker, 2 times beside one another") as refused:
        read_nccl_tests(alone)
    assert "MPI=1" in refused.value.hint


def test_rows_of_no_bytes_are_no_damage():
    empty = "           0             0     float     sum      -1     5.70    0.00    0.00      0\n"
    assert read_nccl_tests(WHOLE + empty).notes == ()


@pytest.mark.parametrize("prefix", ["[1,0]<stdout>: ", "[prterun-host-12@1,0]<stdout>:", "0: "])
def test_prefixes_of_launchers_are_passed_over(prefix):
    text = "".join(prefix + line + "\n" for line in WHOLE.splitlines())
    assert read_nccl_tests(text).times == read_nccl_tests(WHOLE).times


def _json(**changes):
    cell = {"time": 339.61, "alg_bw": 3.087588, "bus_bw": 5.403279, "nwrong": 0.0}
    row = {
        "size": 1048576,
        "count": 262144,
        "type": "float",
        "redop": "sum",
        "root": "    -1",
        "out_of_place": cell,
    }
    data = {
        "version": 3,
        "args": ["./build/all_reduce_perf", "-b", "1M"],
        "config": {"nthreads": 1, "ngpus": 4, "devices": [{"rank": 0, "hostname": "a"}, {"rank": 4, "hostname": "b"}]},
        "results": [{**row, "in_place": {**cell, "time": 335.85, "alg_bw": 3.122155, "bus_bw": 5.463771}}],
    }  # fmt: skip
    return json.dumps({**data, **changes})


def test_the_json_file_is_read_too():
    """Two processes with four devices each, of which only the first is listed: 8 workers on 2 nodes."""
    first, second = read_nccl_tests(_json()).times
    assert (first.op, first.workers, first.nodes, first.size_bytes) == ("all_reduce", 8, 2, 1_048_576)
    assert (first.seconds, second.seconds) == (pytest.approx(339.61e-6), pytest.approx(335.85e-6))


def test_a_column_that_was_not_measured_is_null_in_json():
    data = json.loads(_json())
    data["results"][0]["out_of_place"] = None
    assert len(read_nccl_tests(json.dumps(data)).times) == 1


@settings(deadline=None, max_examples=60)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=4),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
        max_leaves=5,
    ),
    st.sampled_from(["args", "config", "results", "version"]),
)
def test_any_json_is_read_or_refused(value, key):
    _understood(_json(**{key: value}))


@settings(deadline=None, max_examples=60)
@given(st.integers(0, len(_json())))
def test_any_beginning_of_the_json_file_is_read_or_refused(length):
    _understood(_json()[:length])


# ---------------------------------------------------------------- what nobody prints


def _understood(text):
    try:
        probe = read_nccl_tests(text)
        link_from_probe(probe.times)
    except PacelineError:
        return
    assert all(t.seconds > 0 and t.size_bytes > 0 and t.workers > 1 for t in probe.times)


@settings(deadline=None)
@given(st.text())
@example("1 1 f 1 1 1 1")
@example(NAME + "9" * 400 + " 1 float sum -1 1e999 1 1 0\n")
def test_any_text_is_read_or_refused(text):
    _understood(text)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(WHOLE) - 1), st.text("0123456789.eE+-N/A \n#[]", max_size=6), st.integers(0, 9)
        )
    )
)
@example([(WHOLE.index("339.61"), "1e99", 6), (WHOLE.index("8.81"), "1e-9", 4)])
def test_any_damage_to_a_table_is_read_or_refused(changes):
    text = WHOLE
    for at, new, gone in changes:
        text = text[:at] + new + text[at + gone :]
    _understood(text)


@settings(deadline=None)
@given(st.integers(0, len(WHOLE)))
def test_any_beginning_of_a_table_is_read_or_refused(length):
    _understood(WHOLE[:length])
