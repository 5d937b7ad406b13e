"""Output of nccl-tests is read whatever surrounds it, and never with a traceback."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paceline.errors import PacelineError, UsageError
from paceline.links_probe import link_from_probe
from paceline.probe import OPS
from paceline.probe_nccl import read_nccl_tests

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
        (WHOLE.replace("all_reduce", "alltoall"), "says nothing about a gradient exchange"),
        (WHOLE + "# all_gather_perf\n", "several tests"),
        (HEAD + ROWS, "does not say which collective"),
        (WHOLE.replace("#  Rank  1", "#  Ignored"), "nothing was exchanged"),
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
    assert "wrong values in 1 rows" in read_nccl_tests(WHOLE.replace("8.81      0", "8.81      3")).notes[0]


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
