"""The action for pipelines: its exit code is that of --fail-if, and the step summary says why."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "threshold"
RECORDED = ROOT / "tests" / "recorded" / "mnist-1-2"


@pytest.fixture
def step(tmp_path):
    """Run the step of the action as GitHub would; its exit code and the summary it wrote."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "paceline"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m paceline "$@"\n')
    command.chmod(0o755)
    study = shutil.copytree(RECORDED, tmp_path / "study")
    summary = tmp_path / "summary.md"

    def run(conditions, against=""):
        done = subprocess.run(
            [SCRIPT],
            env={
                **os.environ,
                "PATH": f"{command.parent}:{os.environ['PATH']}",
                "STUDY": str(study),
                "FAIL_IF": conditions,
                "AGAINST": against,
                "GITHUB_STEP_SUMMARY": str(summary),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, summary.read_text(encoding="utf-8")

    return run


def test_a_condition_that_holds_fails_the_step_and_the_summary_has_its_number(step):
    code, summary = step("efficiency@2<0.5\nefficiency@2<0.9\n")
    assert code == 3
    assert "efficiency@2<0.9 holds: measured 87%" in summary
    assert "# Scaling of mnist" in summary


def test_a_condition_that_does_not_hold_passes(step):
    code, summary = step("efficiency@2<0.5\n")
    assert code == 0
    assert summary.startswith("## Paceline: passed")
    assert "# Scaling of mnist" in summary


def test_a_condition_that_cannot_be_read_is_no_pass(step):
    code, summary = step("efficient<1")
    assert code == 1
    assert "not decided (exit code 1)" in summary


def test_against_an_earlier_study_the_summary_says_whether_they_differ(step):
    code, summary = step("efficiency@2<0.5", against=str(RECORDED))
    assert code == 0
    assert "no difference" in summary.lower()


def test_the_action_runs_this_script_with_all_its_inputs():
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    assert "$GITHUB_ACTION_PATH/.ci/threshold" in text
    assert all(
        f"{name}: ${{{{ inputs.{name.lower().replace('_', '-')} }}}}" in text
        for name in ("STUDY", "FAIL_IF", "AGAINST")
    )
