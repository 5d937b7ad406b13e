"""A trial that prints without measure keeps its beginning and its end, and the disk."""

import os

from paceline.launch.logs import KEPT_BYTES, shorten, thin

_LINE = 100
_LINES = 500_000  # 50 MB


def on_disk(path):
    return path.stat().st_blocks * 512


def shouted(folder):
    """A log that is appended to as a worker does it, thinned meanwhile; the most that it held on the disk."""
    log, most = folder / "out-0.log", 0
    with open(log, "ab", buffering=0) as worker:
        for k in range(0, _LINES, _LINES // 10):
            worker.write(b"".join(b"%07d %s\n" % (n, b"x" * 91) for n in range(k, k + _LINES // 10)))
            most = max(most, on_disk(log))
            thin(folder)
    return log, most


def test_a_long_log_keeps_both_ends_and_says_what_is_missing(tmp_path):
    log, most = shouted(tmp_path)
    assert log.stat().st_size == _LINES * _LINE  # its writer saw nothing of it
    assert most < _LINES * _LINE / 2
    shorten(tmp_path)
    lines = log.read_text().splitlines()
    assert on_disk(log) < KEPT_BYTES
    (note,) = (line for line in lines if line.startswith("[paceline: "))
    kept = [line for line in lines if line != note]
    assert (kept[0][:7], kept[-1][:7]) == ("0000000", f"{_LINES - 1:07d}")
    assert all(len(line) == _LINE - 1 and "\0" not in line for line in kept)
    assert f"{(_LINES - len(kept)) * _LINE} bytes (45 MB) of this output were left out" in note
    assert os.listdir(tmp_path) == ["out-0.log"]


def test_a_log_that_is_not_long_stays_as_it_is(tmp_path):
    log = tmp_path / "launcher.log"
    log.write_bytes(b"a" * KEPT_BYTES)
    thin(tmp_path)
    shorten(tmp_path)
    assert log.read_bytes() == b"a" * KEPT_BYTES


def test_a_log_of_one_endless_line_keeps_both_ends_too(tmp_path):
    log = tmp_path / "out-main.log"
    log.write_bytes(b"a" + b"." * 2 * KEPT_BYTES + b"z")
    shorten(tmp_path)
    text = log.read_bytes()
    assert (text[:1], text[-1:]) == (b"a", b"z")
    assert b"left out here]\n" in text
    assert len(text) < KEPT_BYTES
