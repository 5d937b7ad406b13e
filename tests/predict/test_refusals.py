"""A number that would be a guess is refused, with the rule and the measurement that would lift it."""

import pytest

from paceline.analysis.outlook import outlook
from paceline.analysis.question import Ask, Cluster
from paceline.links.belief import LinkBelief
from paceline.predict.refusals import Cores
from paceline.records import Estimate, Link, Point, Profile, Setting

_BETWEEN = LinkBelief(1e9, 0.5, 1e-4, 1.0, "declared")


def _profile(workers, step_s, *, nodes=1, batch=32, efficiency=None):
    point = Point(f"w{workers}-n{nodes}-b{batch}", workers, nodes, batch, batch * workers)
    gain = None if efficiency is None else Estimate(efficiency)
    return Profile(
        point,
        "ok",
        None,
        1,
        step_s=Estimate(step_s),
        efficiency_ratio=gain,
        exchanged_bytes_per_step=Estimate(4e7),
    )


_NODE = [_profile(1, 0.10), _profile(2, 0.11), _profile(4, 0.12)]


def _asked(profiles, *settings, cluster=None, **more):
    return outlook(profiles, "step", cluster=cluster, ask=Ask(at=tuple((s, ()) for s in settings), **more))


@pytest.mark.parametrize(
    ("profiles", "setting", "rule"),
    [
        (_NODE, Setting(8, 2, 32), "link-class"),
        (_NODE, Setting(8, 1, 64), "batch"),
        (_NODE, Setting(128, 1, 32), "horizon"),
        (_NODE[:2], Setting(16, 1, 32), "not-identifiable"),
        (_NODE[1:2], Setting(4, 1, 32), "not-identifiable"),
        ([_profile(1, 0.1), _profile(2, 0.09, efficiency=1.11)], Setting(4, 1, 32), "not-comparable"),
        ([_profile(1, 0.1), _profile(2, 0.12, nodes=2)], Setting(4, 1, 32), "link-class"),
    ],
)
def test_each_rule_refuses_and_says_what_would_help(profiles, setting, rule):
    found = _asked(profiles, setting)
    assert not found.projections
    (refused,) = found.refusals
    assert refused.rule == rule
    assert refused.workers == setting.workers
    assert "measure" in refused.would_help or "repeat" in refused.would_help
    assert "worker-hours" in refused.would_help


def test_a_declared_link_lifts_the_refusal_and_the_interval_is_called_an_order_of_magnitude():
    found = _asked(_NODE, Setting(16, 4, 32), cluster=Cluster(between=_BETWEEN))
    assert len(found.projections) == 1
    assert {r.rule for r in found.refusals} <= {"wide-interval"}


def test_a_batch_between_close_neighbours_is_interpolated():
    profiles = [_profile(n, 0.1 * b / 32, batch=b) for n in (1, 2) for b in (32, 48)]
    assert _asked(profiles, Setting(4, 1, 40)).projections
    assert not _asked(profiles, Setting(4, 1, 96)).projections


def test_a_wide_interval_is_shown_and_refused_as_a_point():
    found = _asked(
        [_profile(1, 0.10)], Setting(64, 16, 32), cluster=Cluster(inside=_BETWEEN, between=_BETWEEN)
    )
    (projection,) = found.projections
    assert projection.time_s.high > 2 * projection.time_s.low
    assert [r.rule for r in found.refusals] == ["wide-interval"]


def test_probed_links_serve_as_declared_ones():
    found = outlook(
        [_profile(1, 0.1)], "step", links={"inside": Link(1e-5, 1e10)}, ask=Ask(at=((Setting(4, 1, 32), ()),))
    )
    assert found.projections
    assert not [r for r in found.refusals if r.rule != "wide-interval"]


def test_two_nodes_only_is_a_doubt():
    profiles = [*_NODE, _profile(2, 0.2, nodes=2)]
    assert "two-nodes-only" in {f.id for f in _asked(profiles, Setting(8, 4, 32)).findings}


def test_the_same_question_has_the_same_answer():
    assert _asked(_NODE, Setting(8, 1, 32)) == _asked(_NODE, Setting(8, 1, 32))


def test_workers_that_would_share_cores_are_refused_and_not_recommended():
    cluster = Cluster(cores=Cores(per_node=8, per_worker=2))
    found = outlook(_NODE, "step", cluster=cluster, ask=Ask(project_to=(4, 8)))
    assert [r.rule for r in found.refusals] == ["more-workers-than-cores"]
    assert found.refusals[0].workers == 8
    assert "this machine has 8 cores, and each worker keeps 2 busy: only 4 fit" in found.refusals[0].reason
    assert "a machine with 16 cores" in found.refusals[0].would_help
    assert all((r.workers or 1) <= 4 for r in found.recommendations)


def test_declared_nodes_are_other_machines_whose_cores_nobody_counted():
    cluster = Cluster(workers_per_node=8, cores=Cores(per_node=2))
    assert outlook(_NODE, "step", cluster=cluster, ask=Ask(project_to=(8,))).projections


def test_a_backend_that_the_workers_saw_counts_where_the_points_name_none():
    free = outlook(_NODE, "step", ask=Ask(project_to=(8,))).fit.explanation
    rings = outlook(_NODE, "step", cluster=Cluster(backend="gloo"), ask=Ask(project_to=(8,))).fit.explanation
    assert "2 models" in free
    assert "1 model." in rings


def test_what_would_help_is_a_count_that_was_not_measured_yet():
    profiles = [_profile(4, 0.10), _profile(8, 0.18)]
    for refused in _asked(profiles, Setting(16, 1, 32), Setting(128, 1, 32), Setting(256, 1, 32)).refusals:
        assert int(refused.would_help.split()[1]) > 8
