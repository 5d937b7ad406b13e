"""Charts as data: what is measured looks measured, and no number is made up."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from paceline.analysis.json_file import analysis_data
from paceline.records import Analysis, Estimate, Finding
from paceline.report.charts.accuracy import accuracy_figures, comparison_table
from paceline.report.charts.buckets import bucket_figure
from paceline.report.charts.decision import decision_figure
from paceline.report.charts.draw import can_draw, pdf, png, svg
from paceline.report.charts.grid import grid_figures
from paceline.report.charts.links import device_table, link_figure, link_table
from paceline.report.charts.points import bus_figure, memory_figure
from paceline.report.charts.scaling import scaling_figures
from paceline.report.charts.series import lines
from paceline.report.charts.steps import split_figure
from paceline.report.charts.theme import COLOURS
from paceline.report.charts.workers import course_figures, straggler_figure, utilisation_figure
from paceline.report.sections import sections
from tests.support.report_sample import FULL, OOM, WEAK, around, hostile, large, measured, told

OKABE_ITO = {"#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7", "#000000"}


def figure(name, analysis=FULL):
    return next(f for f in scaling_figures(analysis) if f.id == name)


def flat(spec, data=None):
    """The layers of a chart, each with the data that it has or inherits."""
    for layer in spec["layer"]:
        own = layer.get("data", data)
        if "layer" in layer:
            yield from flat(layer, own)
        else:
            yield {**layer, "data": own}


def layers(figure, **mark):
    """The layers of a chart whose mark has these properties."""
    return [layer for layer in flat(figure.spec) if mark.items() <= layer["mark"].items()]


def rows(layer):
    return layer["data"]["values"]


def numbers(data):
    """Every number in plain data."""
    if isinstance(data, dict):
        return {n for item in data.values() for n in numbers(item)}
    if isinstance(data, list):
        return {n for item in data for n in numbers(item)}
    return {data} if isinstance(data, int | float) and not isinstance(data, bool) else set()


def all_figures(analysis):
    return [f for section in sections(analysis) for f in section.figures]


def test_weak_and_strong_scaling_have_charts_of_their_own():
    assert [f.id for f in scaling_figures(FULL)] == [
        "speedup-weak", "efficiency-weak", "speedup-strong", "efficiency-strong",
    ]  # fmt: skip
    (circles,) = layers(figure("speedup-strong"), type="point", shape="circle")
    assert [row["workers"] for row in rows(circles)] == [1, 2, 4]


@pytest.mark.parametrize("name", ["speedup-weak", "efficiency-weak"])
def test_measured_and_projected_differ_in_shape_and_line_not_in_colour_alone(name):
    (circles,) = layers(figure(name), type="point", shape="circle", filled=True)
    (diamonds,) = layers(figure(name), type="point", shape="diamond", filled=False)
    assert [row["workers"] for row in rows(circles)] == [1, 2, 4, 8]
    assert [row["workers"] for row in rows(diamonds)] == [16, 32]
    plain = [layer for layer in layers(figure(name), type="line") if "strokeDash" not in layer["mark"]]
    solid = [layer for layer in plain if "strokeDash" not in layer["encoding"]]
    assert [row["workers"] for row in rows(solid[0])] == [1, 2, 4, 8]
    (dashed,) = layers(figure(name), type="line", strokeDash=[6, 4])
    assert [row["workers"] for row in rows(dashed)] == [8, 16, 32]  # leads on from the last measured count


@pytest.mark.parametrize("name", ["speedup-weak", "efficiency-weak", "speedup-strong", "efficiency-strong"])
def test_every_value_of_a_scaling_chart_is_in_the_analysis(name):
    known = numbers(analysis_data(FULL))
    marks = layers(figure(name), type="rule", clip=True) + layers(figure(name), type="point")
    shown = {row[key] for layer in marks for row in rows(layer) for key in ("value", "low", "high")}
    assert len(shown) > 6
    assert shown <= known


def test_the_ideal_line_is_as_many_times_faster_as_there_are_workers():
    (ideal,) = layers(figure("speedup-weak"), type="line", strokeDash=[1, 4])
    assert [(row["workers"], row["value"]) for row in rows(ideal)] == [(1, 1.0), (128, 128.0)]


def test_the_ideal_line_begins_at_the_baseline_even_where_that_is_not_shown():
    only = replace(FULL, points=WEAK[1:], projections=(), refusals=())
    (ideal,) = layers(figure("speedup-weak", only), type="line", strokeDash=[1, 4])
    assert [(row["workers"], row["value"]) for row in rows(ideal)] == [(1, 1.0), (8, 8.0)]


def test_lines_with_baselines_of_their_own_have_ideal_lines_of_their_own():
    later = [
        replace(measured(n, e, batch=32), speedup=around(s)) for n, e, s in ((4, 1.0, 1.0), (8, 0.75, 1.5))
    ]
    two = replace(FULL, points=(*WEAK, *later), projections=(), refusals=())
    starts = [rows(line)[0] for line in layers(figure("speedup-weak", two), type="line", strokeDash=[1, 4])]
    assert [(row["workers"], row["value"]) for row in starts] == [(1, 1.0), (4, 1.0)]
    assert "relative to 1 or 4 workers, each line to its own baseline" in figure("speedup-weak", two).caption


def test_a_refusal_among_the_shown_counts_is_not_hatched_and_not_said_to_be():
    low = replace(FULL, refusals=(replace(FULL.refusals[0], workers=3),))
    assert "Hatched" not in figure("speedup-weak", low).how
    assert "Hatched" in figure("speedup-weak").how


def test_the_refused_region_is_hatched_between_the_last_projection_and_the_refused_count():
    (hatches,) = [
        layer for layer in layers(figure("efficiency-weak"), type="rule") if "workers2" in rows(layer)[0]
    ]
    left = min(row["workers"] for row in rows(hatches))
    assert left == pytest.approx(64.0)  # halfway from 32 to 128, where workers double
    assert all(row["workers"] >= left * 0.999 for row in rows(hatches))
    assert not [
        layer
        for layer in figure("efficiency-weak", replace(FULL, refusals=())).spec["layer"]
        if "x2" in layer.get("encoding", {})
    ]


def test_an_interval_beyond_the_frame_is_cut_off_and_the_caption_says_so():
    wide = replace(WEAK[1], efficiency_ratio=Estimate(0.9, 0.1, 4.0, 2))
    shown = figure("efficiency-weak", replace(FULL, points=(WEAK[0], wide)))
    assert shown.spec["encoding"]["y"]["scale"]["domain"][1] < 1.2
    assert "beyond the frame" in shown.how
    assert "beyond the frame" not in figure("efficiency-weak").how


def test_one_count_alone_has_no_scaling_chart():
    assert scaling_figures(replace(FULL, points=WEAK[:1], projections=())) == ()
    assert scaling_figures(Analysis(told("nothing"), (), ())) == ()


def test_the_same_count_on_other_nodes_is_a_line_of_its_own():
    spread = replace(WEAK[1], point=replace(WEAK[1].point, id="w2-n2", nodes=2))
    found = lines(replace(FULL, points=(*WEAK, spread)), "weak")
    assert {name: [p.point.workers for p in own] for name, own in found.items()} == {
        "1 node": [1, 2, 4, 8],
        "2 nodes": [2],
    }


def test_nodes_that_grow_with_the_workers_are_one_line():
    grown = [replace(p, point=replace(p.point, nodes=p.point.workers)) for p in WEAK]
    assert list(lines(replace(FULL, points=tuple(grown)), "weak")) == ["weak scaling"]


def test_the_parts_of_a_bar_add_up_to_the_step():
    spec = split_figure(replace(FULL, points=WEAK)).spec
    bars = [row for row in rows(spec["layer"][0]) if row["point"] == "4 workers"]
    assert [row["part"] for row in bars] == [
        "data wait", "compute", "waiting for the slowest", "network", "optimizer",
    ]  # fmt: skip
    assert sum(row["end"] - row["start"] for row in bars) == pytest.approx(50.0)  # 40 ms at 80 %
    assert all(before["end"] == after["start"] for before, after in pairwise(bars))


def test_the_bubble_of_a_pipeline_is_a_part_of_its_own():
    late = Estimate(0.004)
    idle = [replace(p, bubble_s=late, wire_s=Estimate(p.wire_s.value - 0.004)) for p in WEAK[2:3]]
    bars = rows(split_figure(replace(FULL, points=tuple(idle))).spec["layer"][0])
    assert "pipeline bubble" in {row["part"] for row in bars}
    assert max(row["end"] for row in bars) == pytest.approx(50.0)


def test_each_part_shows_its_own_number_not_the_length_that_is_left_of_it():
    bars = rows(split_figure(replace(FULL, points=WEAK)).spec["layer"][0])
    assert next(row["text"] for row in bars if row["part"] == "compute") == "40.0 ms"


def test_hidden_exchange_ends_where_exposed_exchange_begins_and_lengthens_nothing():
    spec = split_figure(replace(FULL, points=WEAK)).spec
    (hidden,) = [row for row in rows(spec["layer"][3]) if row["point"] == "4 workers"]
    straggle = next(
        r
        for r in rows(spec["layer"][0])
        if (r["point"], r["part"]) == ("4 workers", "waiting for the slowest")
    )
    assert hidden["end"] == straggle["start"]
    assert hidden["end"] - hidden["start"] == pytest.approx(3.0)


def test_a_study_whose_waits_nobody_saw_has_no_split_chart():
    blind = [replace(p, compute_s=None, wire_s=None, straggle_s=None) for p in WEAK]
    assert split_figure(replace(FULL, points=tuple(blind))) is None


def test_buckets_are_shown_at_the_largest_count_in_the_order_of_sending():
    found = bucket_figure(FULL)
    assert "8 workers" in found.title
    assert [(row["bucket"], row["ready"]) for row in found.spec["data"]["values"]] == [(1, 21.0), (2, 33.0)]


def test_a_bucket_is_on_its_way_from_sent_to_done_and_one_of_them_binds():
    shown = bucket_figure(FULL).spec["data"]["values"]
    assert [(row["from"], row["to"], row["binds"]) for row in shown] == [
        (21.0, 28.0, ""),
        (33.0, 38.5, "binds"),
    ]
    untimed = replace(FULL, points=tuple(replace(p, timeline=()) for p in WEAK))
    (first, _) = bucket_figure(untimed).spec["data"]["values"]
    assert (first["from"], first["to"]) == (21.0, 34.5)  # under which it can hide: no claim about sending
    assert "on its way" not in bucket_figure(untimed).caption


def test_our_fit_is_shown_and_the_simpler_curves_wait_for_a_click():
    (curves,) = [
        layer for layer in figure("speedup-weak").spec["layer"] if "strokeDash" in layer.get("encoding", {})
    ]
    (parameter,) = curves["params"]
    assert (parameter["bind"], parameter["value"]) == ("legend", [{"method": "our fit"}])
    assert {row["method"] for row in rows(curves)} == {"our fit", "Amdahl", "USL"}
    assert curves["encoding"]["opacity"]["value"] == 0
    assert {row["value"] for row in rows(curves)} <= numbers(analysis_data(FULL))
    assert not [layer for layer in figure("speedup-strong").spec["layer"] if "params" in layer]


def test_a_projection_continues_the_line_that_it_names():
    other = tuple(measured(n, 0.7, batch=32) for n in (1, 2))
    both = replace(FULL, points=(*WEAK, *other))
    (diamonds,) = layers(figure("speedup-weak", both), type="point", shape="diamond")
    assert {row["line"] for row in rows(diamonds)} == {"64 per worker"}
    renamed = tuple(replace(p, baseline="w1-b32") for p in FULL.projections)
    (diamonds,) = layers(
        figure("speedup-weak", replace(both, projections=renamed)), type="point", shape="diamond"
    )
    assert {row["line"] for row in rows(diamonds)} == {"32 per worker"}


def test_the_decision_shows_measured_and_projected_apart_and_only_the_pareto_set_on_the_line():
    found = decision_figure(FULL)
    (circles,) = layers(found, type="point", shape="circle", filled=True)
    (diamonds,) = layers(found, type="point", shape="diamond", filled=False)
    (line,) = layers(found, type="line")
    assert [row["workers"] for row in rows(circles)] == [1, 2, 4, 8]
    assert [row["workers"] for row in rows(diamonds)] == [16, 32]
    assert [row["workers"] for row in rows(line)] == [1, 2, 4, 8, 16]
    limits = layers(found, type="rule", strokeDash=[6, 4])
    assert [rows(layer) for layer in limits] == [[{"time": 3.0}], [{"cost": 30.0}]]
    assert decision_figure(Analysis(told("v"), (), ())) is None


def test_without_a_deadline_or_budget_there_are_no_limits():
    free = replace(FULL, decision=replace(FULL.decision, deadline_s=None, budget=None))
    assert layers(decision_figure(free), type="rule", strokeDash=[6, 4]) == []
    assert "Dashed" not in decision_figure(free).caption


def test_the_slowest_worker_is_named():
    bars = straggler_figure(FULL).spec["data"]["values"]
    assert [row["worker"] for row in bars if row["label"]] == [7]
    assert bars[0]["own"] == pytest.approx(40.0)
    assert straggler_figure(replace(FULL, points=WEAK[:1])) is None


def test_a_course_leaves_out_what_was_not_sampled():
    cores, memory, gpu = course_figures(FULL)
    assert [f.id for f in (cores, memory, gpu)] == ["course-cores", "course-memory_bytes", "course-gpu_ratio"]
    (line,) = layers(gpu, type="line")
    assert [(row["line"], row["t"], row["value"]) for row in rows(line)][:2] == [
        ("worker 0", 2.0, 0.4),
        ("worker 0", 3.0, 0.9),
    ]
    assert course_figures(replace(FULL, courses=())) == ()


def test_utilisation_is_drawn_where_it_was_sampled():
    (circles,) = layers(utilisation_figure(replace(FULL, points=WEAK)), type="point", shape="circle")
    assert {(row["line"], row["value"]) for row in rows(circles)} == {
        ("cores", 0.9), ("cores", 0.8),
    }  # fmt: skip
    assert utilisation_figure(replace(FULL, points=(OOM,))) is None


def test_probed_links_stand_beside_their_specification_and_what_the_training_reached():
    found = link_figure(FULL)
    (circles,) = layers(found, type="point", shape="circle")
    assert len({row["line"] for row in rows(circles)}) == 2
    assert {row["rate"] for row in rows(circles)} <= numbers(analysis_data(FULL))
    (level,) = layers(found, type="line", strokeDash=[1, 4])
    assert {row["rate"] for row in rows(level)} == {12.5e9}
    stars = [layer for layer in layers(found, type="point") if layer not in (circles,)]
    assert {row["rate"] for row in rows(stars[-1])} == {1.2e9, 1.1e9}
    assert link_figure(replace(FULL, links=())) is None
    assert link_table(FULL).rows[1][:3] == ("between nodes", "nccl", "8")
    assert [row[2] for row in device_table(FULL).rows] == ["float32", "copy"]


def test_what_was_found_of_links_and_backends_stands_where_they_are_drawn():
    told = Finding("link-spec", "note", "links between nodes deliver 72% of their specification", 0.72, 0.6)
    (section,) = [s for s in sections(replace(FULL, findings=(told, told))) if s.id == "exchange"]
    assert section.sentences == ("Links between nodes deliver 72% of their specification.",)


def test_accuracy_curves_keep_every_seed_and_the_band_holds_them():
    curves, times, epochs = accuracy_figures(FULL)
    seeds = next(layer for layer in flat(curves.spec) if "detail" in layer["encoding"])
    assert len(rows(seeds)) == 9 * 12
    band = next(layer for layer in flat(curves.spec) if layer["mark"]["type"] == "area")
    own = [row["value"] for row in rows(seeds) if (row["line"], row["epoch"]) == ("1 worker", 3.0)]
    (here,) = [row for row in rows(band) if (row["line"], row["epoch"]) == ("1 worker", 3.0)]
    assert (here["low"], here["high"]) == (min(own), max(own))
    assert [row["open"] for row in times.spec["data"]["values"]] == [False, False, True]
    assert "not every seed" in times.spec["data"]["values"][2]["text"]
    (dots,) = layers(epochs, type="point", shape="circle")
    assert {row["workers"] for row in rows(dots)} == {1, 4, 8}
    assert accuracy_figures(replace(FULL, convergence=None)) == ()


def test_configurations_say_whether_accuracy_survives():
    table = comparison_table(FULL)
    first = dict(zip([column.name for column in table.columns], table.rows[2], strict=True))
    assert first["seeds that reached it"] == "2 of 3, 1 diverged"
    assert first["time to target"] == "2 min 0 s, not every seed"
    assert first["accuracy"] == "survives"
    assert "Target: val accuracy 0.9." in table.caption


def test_a_point_that_ran_out_of_memory_is_a_cross_on_the_memory_chart():
    crosses = layers(memory_figure(FULL), color="#D55E00")
    assert [row["text"] for row in rows(crosses[0])] == ["w1-b1024"]
    assert "Crosses" in memory_figure(FULL).caption
    assert "Crosses" not in memory_figure(replace(FULL, points=WEAK)).caption


def test_what_is_the_same_at_all_counts_or_known_at_one_has_no_chart():
    flat = [replace(p, peak_memory_bytes=Estimate(1.9e9 + p.point.workers)) for p in WEAK]
    assert memory_figure(replace(FULL, points=tuple(flat))) is None
    assert memory_figure(replace(FULL, points=WEAK[:1])) is None
    assert memory_figure(replace(FULL, points=WEAK)) is not None


def test_the_bus_chart_has_the_points_that_exchange():
    (circles,) = layers(bus_figure(replace(FULL, points=WEAK)), shape="circle")
    assert [row["workers"] for row in rows(circles)] == [2, 4, 8]


def test_a_grid_says_how_a_cell_without_a_measurement_ended():
    step, _, memory = grid_figures(replace(FULL, points=(*WEAK, OOM)))
    cells = {(row["y"], row["x"]): row["text"] for row in step.spec["data"]["values"]}
    assert cells[64, 1] == "40.0 ms"
    assert cells[1024, 1] == "oom"
    assert memory.id == "grid-memory"


def test_two_varied_flags_are_a_grid_at_the_largest_count_and_one_flag_is_a_grid_against_workers():
    def varied(workers, **flags):
        base = measured(workers, 0.9)
        named = tuple((f"--{key}", value) for key, value in flags.items())
        where = f"w{workers}-{'-'.join(flags.values())}"
        return replace(base, accuracy=Estimate(0.9), point=replace(base.point, id=where, varied=named))

    both = tuple(varied(n, depth=d, width=w) for n in (1, 2) for d in "12" for w in ("64", "128"))
    step, metric, _ = grid_figures(replace(FULL, points=both, convergence=None))
    assert step.title == "Step time by width and depth"
    assert "at 2 workers" in step.caption
    assert [(row["x"], row["y"]) for row in step.spec["data"]["values"]] == [
        ("1", "64"), ("1", "128"), ("2", "64"), ("2", "128"),
    ]  # fmt: skip
    assert {row["text"] for row in metric.spec["data"]["values"]} == {"0.900"}
    one = tuple(varied(n, depth=d) for n in (1, 2) for d in "12")
    assert grid_figures(replace(FULL, points=one))[0].title == "Step time by depth and workers"


def test_one_batch_is_no_grid_and_neither_are_two_backends():
    assert grid_figures(replace(FULL, points=WEAK)) == ()
    other = [measured(n, 0.9, batch=b, backend=k) for n in (1, 2) for b in (32, 64) for k in ("gloo", "nccl")]
    assert grid_figures(replace(FULL, points=tuple(other))) == ()


def test_lines_that_share_a_count_stand_apart_and_keep_its_number():
    two = replace(FULL, points=(*WEAK, *(measured(n, 0.7, batch=32) for n in (1, 2))), projections=())
    (circles,) = layers(figure("speedup-weak", two), type="point", shape="circle")
    at_two = [row for row in rows(circles) if row["workers"] == 2]
    assert len({row["at"] for row in at_two}) == 2
    assert all(row["at"] == pytest.approx(2, rel=0.02) for row in at_two)
    (alone,) = layers(figure("speedup-weak"), type="point", shape="circle")
    assert all(row["at"] == row["workers"] for row in rows(alone))


def test_no_more_lines_are_drawn_than_there_are_colours_and_the_caption_says_so():
    many = large(200)
    verdict = replace(many.verdict, points=tuple(p.point.id for p in many.points[-8:]))
    shown = figure("speedup-weak", replace(many, verdict=verdict))
    (circles,) = layers(shown, type="point", shape="circle")
    assert len({row["line"] for row in rows(circles)}) == len(COLOURS)
    assert "6 of 25 lines, that of the verdict among them" in shown.how
    assert "16777216 per worker" in {row["line"] for row in rows(circles)}


def test_colours_are_those_of_okabe_and_ito():
    assert set(COLOURS) <= OKABE_ITO
    assert len(set(COLOURS)) == len(COLOURS)


def test_every_chart_is_plain_data_and_its_caption_is_one_line():
    found = all_figures(FULL)
    assert len(found) >= 9
    for one in found:
        assert json.loads(json.dumps(one.spec, allow_nan=False)) == one.spec
        assert one.caption.endswith(".")
        assert len(one.caption) <= 100
        assert one.how in one.whole_caption
    assert len({one.id for one in found}) == len(found)


@pytest.mark.skipif(not can_draw(), reason="vl-convert is not installed: pip install 'paceline[report]'")
def test_every_chart_can_be_drawn_in_each_form():
    for one in all_figures(FULL):
        text = svg(one.spec, prefix="p-")
        assert text.startswith("<svg")
        assert 'id="p-' in text or 'id="' not in text
    first = all_figures(FULL)[0].spec
    assert png(first).startswith(b"\x89PNG")
    assert pdf(first).startswith(b"%PDF")


@pytest.mark.skipif(not can_draw(), reason="vl-convert is not installed: pip install 'paceline[report]'")
def test_a_hostile_name_is_text_in_a_picture():
    drawn = "".join(svg(one.spec) for one in all_figures(hostile()))
    assert "<script" not in drawn
    assert "&lt;script" in drawn
