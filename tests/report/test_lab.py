"""A lab report holds what labs ask for: matrix, compute against communication, share of the link, answers."""

from dataclasses import replace

import pytest

from paceline.analysis.question import Ask
from paceline.records import Answer, Finding
from paceline.report.document import Figure, Table
from paceline.report.handin.blocks import Blank, Formula, Heading, Sentence
from paceline.report.handin.lab import lab_blocks
from paceline.source.anything import table_at
from tests.support.report_sample import FULL

TABLE = """gpus,per_gpu_batch,epoch_s,compute_s,comm_s,bandwidth (GB/s),samples
1,32,100,,,,1000
2,32,60,50,20,2.5,1000
1,64,90,,,,1000
2,64,50,45,4,3.0,1000
"""


@pytest.fixture(scope="module")
def labs(tmp_path_factory):
    file = tmp_path_factory.mktemp("lab") / "times.csv"
    file.write_text(TABLE)
    return table_at(file, ask=Ask(), cluster=None)


def formulas(analysis):
    return [block.tex for block in lab_blocks(analysis) if isinstance(block, Formula)]


def test_batch_by_workers_is_a_matrix_of_time_and_speed_up(labs):
    (matrix,) = [block for block in lab_blocks(labs) if isinstance(block, Table) and block.id == "matrix"]
    assert [column.name for column in matrix.columns] == ["batch per GPU", "1 GPU", "2 GPUs"]
    assert matrix.rows == (
        ("32", "1 min 40 s, 1.00x", "60.0 s, 1.67x"),
        ("64", "1 min 30 s, 1.00x", "50.0 s, 1.80x"),
    )


def test_one_batch_is_no_matrix():
    weak = replace(FULL, points=FULL.points[:4])
    assert not [block for block in lab_blocks(weak) if isinstance(block, Table) and block.id == "matrix"]


def test_columns_of_computing_communication_and_bandwidth_are_drawn_and_listed_as_stated(labs):
    figures = {block.id: block for block in lab_blocks(labs) if isinstance(block, Figure)}
    bars = figures["stated"].spec["layer"][0]["data"]["values"]
    assert [(bar["start"], bar["end"]) for bar in bars if bar["point"].startswith("2 GPUs, 32")] == [
        (0.0, 50.0), (50.0, 70.0),
    ]  # fmt: skip
    marks = figures["stated"].spec["layer"][1]["data"]["values"]
    assert [mark["end"] for mark in marks] == [60.0, 50.0]  # 70 s are stated where 60 s were measured
    (stated,) = [block for block in lab_blocks(labs) if isinstance(block, Table) and block.id == "stated"]
    assert stated.rows[0][-1] == "2.50 GB/s"


def test_the_serial_part_follows_from_the_largest_count(labs):
    found = [tex for tex in formulas(labs) if tex.startswith("s =")]
    assert found[0].endswith(r"= 0.200, \qquad S(\infty) = 1/s = 5.00")  # 1/1.667 = 0.6 = s + (1 - s)/2


def test_bandwidth_is_a_share_of_the_link_that_was_probed():
    (bus,) = [tex for tex in formulas(FULL) if "B_\\mathrm{link}" in tex]
    rate = max(
        (p for p in FULL.points if p.bus_bytes_per_s), key=lambda p: p.point.workers
    ).bus_bytes_per_s.value
    assert bus.endswith(rf"= {rate / 2e9:.0%}".replace("%", r"\,\%"))  # the link inside a node carries 2 GB/s


def test_a_link_that_nobody_probed_has_no_share():
    unknown = replace(FULL, links=())
    assert not [tex for tex in formulas(unknown) if "B_\\mathrm{link}" in tex]
    assert any(isinstance(b, Sentence) and "was not probed" in b.text for b in lab_blocks(unknown))


def test_what_the_recipe_asked_is_answered():
    asked = replace(FULL, answers=(Answer("Does accuracy survive?", ("yes", "at 2 workers")),))
    blocks = lab_blocks(asked)
    assert Heading("What the recipe asked") in blocks
    assert Sentence("Does accuracy survive? yes; at 2 workers.") in blocks


def test_a_doubt_of_one_kind_is_asked_about_once():
    same = tuple(Finding("few-launches", "doubt", f"only {n} runs", point=f"w{n}") for n in (1, 2, 3))
    asked = [b.question for b in lab_blocks(replace(FULL, findings=same)) if isinstance(b, Blank)]
    assert sum("What does this mean" in question for question in asked) == 1
