"""study.toml as a schema: what it may hold, with the messages a person gets when it does not.

History of the format: 1 first format.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from paceline.records import Scaling, Start, Study, TargetKind

__all__ = ["StudyFile", "WorkloadTable", "study_file", "study_of"]

FORMAT = 1

Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class WorkloadTable(BaseModel):
    """The training command."""

    model_config = ConfigDict(extra="forbid")

    kind: TargetKind = "script"
    name: Annotated[str, Field(min_length=1)]
    args: list[str] = []
    start: Start = "torchrun"
    batch_flag: str | None = None
    lr_flag: str | None = None


class StudyFile(BaseModel):
    """What was asked: one question about one workload."""

    model_config = ConfigDict(extra="forbid")

    format: Annotated[int, Field(ge=1, le=FORMAT)] = FORMAT
    name: str = "study"
    directory: str | None = None
    workers: Annotated[list[Positive], Field(min_length=1)] = [1, 2]
    scaling: list[Scaling] = ["weak"]
    per_worker_batch: list[Positive] = []
    global_batch: list[Positive] = []
    backends: list[str] = []
    lr: float | None = None
    steps: Annotated[int, Field(ge=10)] = 40
    warmup: Annotated[int, Field(ge=0)] = 10
    repeats: Positive = 5
    tight_ratio: Annotated[float, Field(ge=0, le=1)] = 0.03
    timeout_s: Seconds = 600.0
    hang_s: Seconds = 60.0
    budget_device_s: Seconds | None = None
    threads: Positive | None = None
    python: str | None = None
    workload: WorkloadTable
    vary: dict[str, list[str]] = {}


def study_of(file: StudyFile) -> Study:
    """The Study that a file asks for."""
    data = file.model_dump(exclude={"format"})
    return TypeAdapter(Study).validate_python({**data, "vary": list(file.vary.items())})


def study_file(study: Study) -> StudyFile:
    """The file that asks for this Study."""
    return StudyFile.model_validate({**asdict(study), "vary": dict(study.vary)})
