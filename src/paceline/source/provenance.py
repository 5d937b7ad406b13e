"""Where the numbers of a study come from, for the report's provenance: command, code, machines, problem, settings."""

from __future__ import annotations

import platform
import socket
from collections.abc import Mapping, Sequence

from paceline import __version__
from paceline.plan.config import command_text
from paceline.records import Study, TrialResult
from paceline.store.git_state import git_states
from paceline.store.paths import StudyFolder
from paceline.store.trial_files import first_started

__all__ = ["source_of"]

_OF_ONE_LAUNCH = (
    "RANK",
    "WORLD_SIZE",
    "MASTER_",
    "TORCHELASTIC_",
    "PACELINE_",
)  # different in every trial or worker
_PRECISIONS = {8: "64 bit", 4: "32 bit", 2: "16 bit", 1: "8 bit"}


def source_of(folder: StudyFolder, study: Study, results: Sequence[TrialResult]) -> dict[str, object]:
    """Everything known of how these results were measured. What the workers said is listed, each value once."""
    manifests = [worker.manifest for result in results for worker in result.workers]
    return {
        "command": command_text(study.workload),
        "git": git_states(folder),
        "folder": str(folder.root.absolute()),
        "paceline": __version__,
        "host": socket.gethostname(),
        "system": platform.platform(),
        "started": first_started(folder),
        "trials": len(results),
        "measured_steps": study.steps,
        "warmup_steps": study.warmup,
        "workers": _each(manifests, ("host", "device", "device_name", "torch", "python", "backend")),
        "problem": _problem(manifests),
        "threads_per_worker": study.threads,
        "environment": _environment(manifests),
    }


def _each(manifests: Sequence[Mapping[str, object]], keys: Sequence[str]) -> dict[str, list[str]]:
    """Every value that some worker gave; more than one in a list is worth a look."""
    return {key: sorted({str(m[key]) for m in manifests if m.get(key) is not None}) for key in keys}


def _problem(manifests: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """What was trained: parameters, precision of the exchanged gradients, optimizer, data and who reads them."""
    found: dict[str, object] = dict(_each(manifests, ("parameters", "gradient_bytes")))
    found["gradient_precision"] = sorted({text for m in manifests if (text := _precision(m)) is not None})
    optimizers = [m["optimizer"] for m in manifests if isinstance(m.get("optimizer"), Mapping)]
    loaders = [m["loader"] for m in manifests if isinstance(m.get("loader"), Mapping)]
    found["optimizer"] = _values(optimizers, "name")
    found["samples_in_data_set"] = _values(loaders, "dataset_size")
    found["loader_processes"] = _values(loaders, "workers")
    return {key: values for key, values in found.items() if values}


def _precision(manifest: Mapping[str, object]) -> str | None:
    parameters, size = manifest.get("parameters"), manifest.get("gradient_bytes")
    if not isinstance(parameters, int) or not isinstance(size, int) or parameters <= 0 or size % parameters:
        return None
    return _PRECISIONS.get(size // parameters)


def _values(found: Sequence[object], key: str) -> list[str]:
    return sorted({str(m[key]) for m in found if isinstance(m, Mapping) and m.get(key) is not None})


def _environment(manifests: Sequence[Mapping[str, object]]) -> dict[str, list[str]]:
    """Settings that workers shared, from the list that the agent may read: no secret is on it."""
    found: dict[str, set[str]] = {}
    for manifest in manifests:
        own = manifest.get("environment")
        for name, value in own.items() if isinstance(own, Mapping) else ():
            if not any(part in str(name) for part in _OF_ONE_LAUNCH):
                found.setdefault(str(name), set()).add(str(value))
    return {name: sorted(values) for name, values in sorted(found.items())}
