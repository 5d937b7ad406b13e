"""`paceline schema`."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import BaseModel

from paceline.analysis.json_file import ANALYSIS_FORMAT
from paceline.cli.text.plan import print_json
from paceline.core.errors import UsageError
from paceline.store.analysis_schema import AnalysisFile
from paceline.store.study_schema import FORMAT as STUDY_FORMAT
from paceline.store.study_schema import StudyFile

__all__ = ["schema"]


def schema(
    of: Annotated[str, typer.Argument(metavar="[analysis|study]", help="Which file.")] = "analysis",
) -> None:
    """Print the JSON schema of analysis.json (what --json prints) or of study.toml."""
    models: dict[str, tuple[type[BaseModel], int]] = {
        "analysis": (AnalysisFile, ANALYSIS_FORMAT),
        "study": (StudyFile, STUDY_FORMAT),
    }
    if of not in models:
        raise UsageError(f"there is no schema of {of!r}", hint="paceline schema study")
    model, version = models[of]
    print_json({"$id": f"paceline/{of}/{version}", "version": version, **model.model_json_schema()})
