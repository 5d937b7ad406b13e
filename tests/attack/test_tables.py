"""Tables of any kind: read, or refused in a sentence that names what to mend; analysed, or refused. Nothing else."""

import json
import time
import warnings

import pytest

from paceline.analysis.json_file import analysis_data, analysis_from
from paceline.analysis.table import table_analysis
from paceline.cli.main import exit_code
from paceline.cli.text.table import table_text
from paceline.core.errors import TableError
from paceline.table.read import read_table
from tests.attack.chance import SEED, attempts, chance
from tests.attack.tables import table

_LONGEST_S = 20.0  # of one table, of a processor: nothing may take the square of what somebody wrote


def read(text):
    """The table, or None where it is refused with what to mend."""
    try:
        return read_table(text)
    except TableError as refused:
        hint = refused.hint
    assert hint, text
    return None


def test_every_table_is_read_or_refused(figures):
    rng, count, refused, longest = chance("read"), 0, 0, 0.0
    for count in attempts(3000, 100_000):  # noqa: B007 - told at the end
        text, began = table(rng), time.process_time()
        refused += read(text) is None
        longest = max(longest, time.process_time() - began)
        assert longest < _LONGEST_S, (SEED, text)
    assert count / 10 < refused < count * 0.9
    figures(f"tables read: {count + 1}, {refused} of them refused, longest {longest * 1e3:.0f} ms")


def test_every_table_that_is_read_is_analysed(figures):
    rng, took = chance("analysed"), []
    for _ in attempts(25, 10_000):
        understood = None
        while understood is None:
            text = table(rng)
            understood = read(text)
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            analysis = table_analysis(understood)
            said = table_text(analysis)
        took.append(time.process_time() - began)
        assert said, (SEED, text)
        data = json.loads(json.dumps(analysis_data(analysis), allow_nan=False))
        assert analysis_data(analysis_from(data)) == data, (SEED, text)
        assert took[-1] < _LONGEST_S, (SEED, text)
    took.sort()
    figures(
        f"tables analysed: {len(took)}, median {took[len(took) // 2] * 1e3:.0f} ms, longest {took[-1] * 1e3:.0f} ms"
    )


@pytest.mark.parametrize("cell", ["1e-308", "3.9e297", "5e-324", "9" * 400, "1e999"])
@pytest.mark.parametrize("heading", ["throughput", "step_s", "epoch_s", "gradient_bytes", "lr"])
def test_a_number_that_nothing_measures_is_refused_with_its_row_and_column(heading, cell):
    other = "" if heading in ("throughput", "step_s", "epoch_s") else ",epoch_s"
    with pytest.raises(TableError, match=f"row 3, column '{heading}'"):
        read_table(f"workers,{heading}{other}\n1,5{other and ',9'}\n2,{cell}{other and ',5'}\n")


@pytest.mark.parametrize(
    "text",
    [
        "workers,throughput\n1,1e-308\n2,2e-308\n4,3e-308\n",
        "workers;time\n1;1\n4;3.9e297\n8;2\n",
        "workers,epoch_s\n1000,10\n1001,9\n",
        "[" * 100_000,
        '[{"workers":1,"epoch_s":' + "9" * 400 + "}]",
        "workers,epoch_s\n1," + "9" * 5000 + "\n",
    ],
)
@pytest.mark.parametrize(
    "verb", [("analyze",), ("analyze", "--json"), ("project", "--workers", "16"), ("advise",)]
)
def test_a_table_that_once_ended_in_a_traceback_ends_in_an_exit_code(tmp_path, capsys, text, verb):
    (tmp_path / "t.csv").write_text(text)
    assert exit_code([verb[0], str(tmp_path / "t.csv"), *verb[1:]]) in (0, 1, 2)
    assert "Traceback" not in capsys.readouterr().err


def test_a_heading_without_end_is_read_at_once():
    began = time.process_time()
    assert read(f"workers,{'[' * 300_000}\n1,2\n") is None
    assert time.process_time() - began < 2.0
