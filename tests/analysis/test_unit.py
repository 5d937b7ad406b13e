"""A GPU is called a GPU: where every worker had one to itself, or where a table says so."""

import json
from dataclasses import replace

import pytest

from paceline.analysis.json_file import analysis_data, analysis_from
from paceline.analysis.machines import unit_seen
from paceline.analysis.table import table_analysis
from paceline.decide.sentence import verdict_text
from paceline.records import Point, Trial, TrialResult, WorkerRecord
from paceline.report.charts.scaling import scaling_figures
from paceline.report.lead import tiles
from paceline.report.tables.measured import scaling_table
from paceline.table.read import read_table

ROWS = "1,32,100\n2,32,55\n4,32,30\n"
GPUS = table_analysis(read_table(f"gpus,per_gpu_batch,epoch_s\n{ROWS}"))
WORKERS = table_analysis(read_table(f"workers,batch,epoch_s\n{ROWS}"))


def result(*devices):
    """A trial whose workers had these devices."""
    workers = tuple(
        WorkerRecord(rank=i, world=len(devices), manifest=manifest, samples=())
        for i, manifest in enumerate(devices)
    )
    return TrialResult(Trial("t", Point("w", len(devices)), 1, ()), "ok", None, workers, 1.0)


def gpu(name):
    return {"device": "cuda", "device_id": name}


@pytest.mark.parametrize(
    ("trials", "unit"),
    [
        ([result(gpu("a")), result(gpu("a"), gpu("b"))], "GPU"),
        ([result(gpu("a"), gpu("a"))], "worker"),  # two share one
        ([result({"device": "cpu"}, {"device": "cpu"})], "worker"),
        ([result(gpu("a")), result({"device": "cpu"})], "worker"),
        ([result(gpu(None), gpu(None))], "GPU"),  # a driver that names none
        ([], "worker"),
    ],
)
def test_a_worker_is_a_gpu_where_each_had_one_of_its_own(trials, unit):
    assert unit_seen(trials) == unit


def test_sentence_tiles_table_and_axis_of_gpus_say_so():
    assert verdict_text(GPUS.verdict).startswith("Use 4 GPUs:")
    assert tiles(GPUS)[0].name == "speed-up with 4 GPUs"
    assert scaling_table(GPUS).columns[0].name == "GPUs"
    (speedup, *_) = scaling_figures(GPUS)
    assert '"title": "GPUs"' in json.dumps(speedup.spec)
    assert all("worker" not in one.text for one in GPUS.recommendations if one.goal != "next-measurement")


def test_where_nobody_says_gpu_they_are_workers():
    assert verdict_text(WORKERS.verdict).startswith("Use 4 workers:")
    assert scaling_table(WORKERS).columns[0].name == "workers"


def test_the_name_survives_json():
    again = analysis_from(json.loads(json.dumps(analysis_data(GPUS))))
    assert again == GPUS
    assert replace(again.points[0], unit="worker") != GPUS.points[0]
