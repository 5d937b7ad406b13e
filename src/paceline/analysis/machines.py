"""What the workers of a study said of their machines -> the Cluster, under what the user declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from paceline.analysis.question import Cluster
from paceline.core.manifest import cores_of
from paceline.predict.refusals import Cores
from paceline.records import TrialResult, WorkerUnit

__all__ = ["unit_seen", "with_seen"]

Manifest = Mapping[str, object]


def with_seen(declared: Cluster | None, results: Sequence[TrialResult]) -> Cluster:
    """The declared Cluster, with the backend that all workers used, and the cores or devices they computed on."""
    manifests = [worker.manifest for result in results for worker in result.workers]
    backends = {found for manifest in manifests if (found := _backend(manifest)) is not None}
    backend = backends.pop() if len(backends) == 1 else None
    return replace(
        declared or Cluster(), backend=backend, cores=_cores(manifests), devices_per_node=_devices(manifests)
    )


def unit_seen(results: Sequence[TrialResult]) -> WorkerUnit:
    """GPU, where every worker of every trial had one to itself."""
    seen = [[worker.manifest for worker in result.workers] for result in results if result.workers]
    alone = all(
        len({manifest.get("device_id") or i for i, manifest in enumerate(own)}) == len(own) for own in seen
    )
    on_gpu = all(manifest.get("device") == "cuda" for own in seen for manifest in own)
    return "GPU" if seen and on_gpu and alone else "worker"


def _backend(manifest: Manifest) -> str | None:
    """The backend of this worker's device; torch may name one for each: cpu:gloo,cuda:nccl."""
    text = manifest.get("backend")
    if not isinstance(text, str):
        return None
    by_device = dict(part.split(":", 1) for part in text.split(",") if ":" in part)
    return by_device.get(str(manifest.get("device"))) if by_device else text


def _devices(manifests: Sequence[Manifest]) -> int | None:
    """CUDA devices of the smallest host. One is no count: a launcher may show every worker its own and no other."""
    if not manifests or any(manifest.get("device") != "cuda" for manifest in manifests):
        return None
    counts = [count for m in manifests if isinstance(count := m.get("devices"), int) and count > 1]
    return min(counts) if len(counts) == len(manifests) else None


def _cores(manifests: Sequence[Manifest]) -> Cores | None:
    """Cores of the smallest host, threads of the leanest worker; None where workers compute elsewhere."""
    if not manifests or any(manifest.get("device") != "cpu" for manifest in manifests):
        return None
    cores = [own for m in manifests if (own := cores_of(m)) is not None]
    threads = [count for m in manifests if isinstance(count := m.get("threads"), int) and count > 0]
    if len(cores) < len(manifests):
        return None
    return Cores(min(cores), min(threads, default=1))
