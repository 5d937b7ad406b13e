"""Where everything of a study lies. Pure names; nothing is opened here."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["StudyFolder"]


@dataclass(frozen=True, slots=True)
class StudyFolder:
    """One study on disk."""

    root: Path

    @property
    def study_toml(self) -> Path:
        return self.root / "study.toml"

    @property
    def plan_json(self) -> Path:
        return self.root / "plan.json"

    @property
    def analysis_json(self) -> Path:
        return self.root / "analysis.json"

    @property
    def report_html(self) -> Path:
        return self.root / "report.html"

    @property
    def lock(self) -> Path:
        return self.root / ".lock"

    @property
    def trials(self) -> Path:
        return self.root / "trials"

    @property
    def slurm(self) -> Path:
        """The script that was handed to Slurm, the ids of its jobs, and what they printed."""
        return self.root / "slurm"

    @property
    def claims(self) -> Path:
        """Which task of a job array works on which trial."""
        return self.slurm / "claims"

    def trial(self, trial_id: str) -> Path:
        return self.trials / trial_id

    @property
    def tag(self) -> str:
        """What every process of this study carries, before the trial id. A copy of the folder has its own."""
        return hashlib.sha256(os.fsencode(os.path.realpath(self.root))).hexdigest()[:12] + ":"
