"""study.toml as a schema: what it may hold, with the messages a person gets when it does not.

History of the format: 1 first format.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from paceline.plan.config import placed
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
    seed_flag: str | None = None


class GoalTable(BaseModel):
    """What every training is to reach."""

    model_config = ConfigDict(extra="forbid")

    target: Annotated[float | None, Field(allow_inf_nan=False)] = None
    metric: str | None = None
    rises: bool = True
    epochs: Positive | None = None
    seeds: Positive | None = None
    train_samples: Positive | None = None
    data: str | None = None


class SlurmTable(BaseModel):
    """The allocation that is asked of Slurm."""

    model_config = ConfigDict(extra="forbid")

    partition: str | None = None
    account: str | None = None
    time_s: Seconds | None = None
    gres: str | None = None
    constraint: str | None = None
    exclusive: bool = False
    modules: list[str] = []
    prologue: list[str] = []
    container: str | None = None
    options: list[str] = []
    array: Annotated[int | None, Field(ge=0)] = None


class StudyFile(BaseModel):
    """What was asked: one question about one workload."""

    model_config = ConfigDict(extra="forbid")

    format: Annotated[int, Field(ge=1, le=FORMAT)] = FORMAT
    name: str = "study"
    recipe: str | None = None
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
    keep_going: bool = False
    flops: bool = True
    threads: Positive | None = None
    python: str | None = None
    nodes: list[Positive] = []
    workers_per_node: list[Positive] = []
    memory_limit_bytes: Positive | None = None
    find_batch: bool = False
    try_anyway: bool = False
    goal: GoalTable | None = None
    slurm: SlurmTable | None = None
    workload: WorkloadTable
    vary: dict[str, list[str]] = {}

    @model_validator(mode="after")
    def _one_count(self) -> Self:
        """Workers are counted by themselves or by nodes."""
        if self.nodes and "workers" in self.model_fields_set:
            raise ValueError("nodes and workers both say how many workers there are: leave out workers")
        return self


def study_of(file: StudyFile) -> Study:
    """The Study that a file asks for."""
    data = file.model_dump(exclude={"format"})
    return placed(TypeAdapter(Study).validate_python({**data, "vary": list(file.vary.items())}))


def study_file(study: Study) -> StudyFile:
    """The file that asks for this Study."""
    asked = asdict(study)
    if study.nodes:
        del asked["workers"]  # they follow from the nodes
    return StudyFile.model_validate({**asked, "vary": dict(study.vary)})
