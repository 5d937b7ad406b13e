"""One allocation for everything that is missing, or a job array: which suits a study.

one allocation   queued for once, all points on the same nodes: right for trials of a minute that are compared by time
array            many equal allocations, queued apart: right for trainings (a goal is set) that all need the same
                 nodes and workers. They need not wait for one another, and small requests find gaps in the queue

Without a word of the user it is an array where a goal is set, two trainings or more are missing, all of them are of
one size and no budget is set: a budget is spent one trial after the other. --array N asks for one, N tasks at once,
wherever the node count is the same; --array 0 for one allocation.
"""

from __future__ import annotations

from collections.abc import Sequence

from paceline.core.errors import UsageError
from paceline.core.units import duration_text, estimate_text
from paceline.records import Estimate, Study, Trial
from paceline.slurm.script import Array, signal_lead_s

__all__ = ["array_of", "resource_warnings", "submission_text", "time_warning"]

_CORES_PER_GPU = 4  # fewer and loading and augmenting images often waits for them
_MOST_TASKS = 1000  # Slurm's MaxArraySize is 1001 unless the site says otherwise


def array_of(study: Study, todo: Sequence[Trial]) -> Array | None:
    """The array that suits what is missing; None: one allocation for all of it."""
    assert study.slurm is not None
    asked = study.slurm.array
    if asked == 0 or len(todo) < 2:
        return None
    tasks = min(len(todo), _MOST_TASKS)
    if asked is None:
        one_size = len({(trial.point.nodes, trial.point.workers) for trial in todo}) == 1
        suits = study.goal is not None and one_size and study.budget_device_s is None
        return Array(tasks) if suits else None
    counts = sorted({trial.point.nodes for trial in todo})
    if len(counts) > 1:
        raise UsageError(
            f"--array {asked}: tasks of an array are equally large, and settings need {_listed(counts)} nodes",
            hint="--array 0 for one allocation, or a study with its own --out for every node count",
        )
    if study.budget_device_s is not None:
        raise UsageError(
            f"--array {asked}: tasks spend at the same time, so that no --budget can be kept",
            hint="--array 0, or no --budget",
        )
    return Array(tasks, asked if asked < tasks else None)


def submission_text(study: Study, todo: Sequence[Trial], expected_s: Sequence[float]) -> str:
    """How what is missing is handed to Slurm, and the node-hours that it holds, in two sentences.

    All nodes of an allocation are held for every run, also for those that need fewer of them."""
    array = array_of(study, todo)
    nodes = max(trial.point.nodes for trial in todo)
    size = f"{nodes} node{'' if nodes == 1 else 's'}"
    held = f"About {estimate_text(Estimate(nodes * sum(expected_s) / 3600))} node-hours."
    if array is None:
        following = " for all of them, one after the other" if len(todo) > 1 else ""
        return f"Slurm: one job of {size}{following}. {held}"
    at_once = "" if array.at_once is None else f", {array.at_once} at once"
    return (
        f"Slurm: a job array of {array.tasks} tasks of {size}{at_once}; each takes what no other has taken. "
        f"{held}"
    )


def resource_warnings(study: Study, cpus_per_node: int | None) -> tuple[str, ...]:
    """What nobody asked for and a site's default may be too small for: memory, and cores beside a GPU."""
    asked = study.slurm
    if asked is None or asked.exclusive:
        return ()
    named = [option.lstrip("-") for option in asked.options]
    said = []
    if not any(option.startswith("mem") for option in named):
        said.append(
            "No memory is asked for, and a site's default may be small: --sbatch-option mem=0 takes all of a node."
        )
    workers = max(study.workers_per_node or study.workers)
    cores = None if cpus_per_node is None else cpus_per_node // workers
    if (
        asked.gres is not None
        and cores is not None
        and cores < _CORES_PER_GPU
        and not any(option.startswith("cpus-per") for option in named)
    ):
        each = f"{cores} core{'' if cores == 1 else 's'}"
        said.append(
            f"Each GPU gets {each}, and loading data may need more: --threads {_CORES_PER_GPU}, or --exclusive."
        )
    return tuple(said)


def time_warning(study: Study, todo: Sequence[Trial], expected_s: Sequence[float]) -> str | None:
    """What --time leaves undone, if trials take as long as expected; None where all fit, or no time is asked."""
    assert study.slurm is not None
    time_s = study.slurm.time_s
    if time_s is None or not expected_s:
        return None
    usable_s = time_s - signal_lead_s(time_s)
    limit = f"--time {duration_text(time_s)}, less {duration_text(time_s - usable_s)} to end in order"
    if max(expected_s) > usable_s:
        return f"One run may need {duration_text(max(expected_s))}, more than {limit}: raise it."
    if array_of(study, todo) is None and sum(expected_s) > usable_s:
        return f"That may be more than {limit}: the same command then submits the rest."
    return None


def _listed(counts: Sequence[int]) -> str:
    return f"{', '.join(map(str, counts[:-1]))} and {counts[-1]}"
