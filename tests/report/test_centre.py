"""What a centre asks for stands in a proposal with its source; its line is the Analysis's own."""

from dataclasses import replace

import pytest

from paceline.core.calibration import WORTH_PER_DOUBLING
from paceline.data import shipped
from paceline.records import Threshold
from paceline.report.handin.centre import asked_by, centre_from
from paceline.report.handin.proposal import proposal_latex, proposal_text
from tests.support.report_sample import FULL, hostile

CENTRES = {name: centre_from(row) for name, row in shipped("centres").items()}


def doubling(value, holds):
    return Threshold("gain-per-doubling", "said", value, 1.5, holds, ("w2-b64", "w4-b64"))


@pytest.mark.parametrize("name", CENTRES)
def test_every_centre_is_half_a_page_with_its_source_and_node_hours(name):
    made = proposal_text(FULL, centre=CENTRES[name])
    assert CENTRES[name].source in made
    assert CENTRES[name].date in made
    assert "node-h" in made
    assert made.isascii()
    assert max(map(len, made.splitlines())) <= 78
    assert len(made.splitlines()) < 60
    assert r"\paragraph{Asked.}" in proposal_latex(FULL, figures=None, centre=CENTRES[name])


def test_a_centres_line_is_the_one_that_gains_are_held_against():
    lines = {centre.at_least for centre in CENTRES.values()} - {None}
    assert lines == {WORTH_PER_DOUBLING.value}


@pytest.mark.parametrize(
    ("value", "holds", "said"),
    [(1.8, True, "kept"), (1.2, False, "not kept"), (1.5, None, "too noisy to decide")],
)
def test_a_doubling_is_held_against_the_line_of_the_centre(value, holds, said):
    asked = asked_by(CENTRES["csc"], replace(FULL, thresholds=(doubling(value, holds),)))[-1].text
    assert f"2 to 4 workers {value:.2f}x: {said}." in asked


def test_a_centre_without_a_known_line_holds_nothing_against_anybody():
    asked = asked_by(CENTRES["nersc"], replace(FULL, thresholds=(doubling(1.2, False),)))[-1].text
    assert "kept" not in asked


def test_names_of_an_attacker_do_no_harm_in_a_proposal_for_a_centre():
    assert r"\input" not in proposal_latex(hostile(), figures=None, centre=CENTRES["csc"])
