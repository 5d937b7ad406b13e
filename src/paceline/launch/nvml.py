"""The NVIDIA devices of this machine through nvidia-ml-py, where it is installed and a driver answers. Else nothing.

A worker's device is the one that lists its process; in a container, where process ids are others, it is the
LOCAL_RANK-th of CUDA_VISIBLE_DEVICES, which is the device that a script under torchrun takes.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["DeviceUse", "Devices", "devices"]

# bits of nvmlClocksEventReasons (nvml.h, CUDA 12); idle is no reason to worry
_REASONS = {
    0x002: "applications_clocks",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake",
    0x100: "display_clocks",
}


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """What one device does at this moment. None: this device or driver does not tell."""

    gpu_ratio: float | None = None
    gpu_memory_bytes: int | None = None
    gpu_clock_ratio: float | None = None
    power_watts: float | None = None
    throttled: tuple[str, ...] = ()
    device: str | None = None


class Devices:
    """The devices of this machine, open until closed."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        count = nvml.nvmlDeviceGetCount()
        self._handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        self._names = [_text(nvml.nvmlDeviceGetUUID(handle)) for handle in self._handles]
        self.driver = _text(nvml.nvmlSystemGetDriverVersion())
        self._found: dict[int, int | None] = {}  # where each worker was found: asking every device costs

    def use(self, pid: int, environment: Mapping[str, str]) -> DeviceUse | None:
        """What the device of this worker does now; None when it has none."""
        if pid not in self._found:
            self._found[pid] = self._index(pid, environment)
        index = self._found[pid]
        if index is None:
            return None
        nvml, handle = self._nvml, self._handles[index]
        busy = self._asked(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        clock = self._asked(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))
        highest = self._asked(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM))
        milliwatts = self._asked(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        memory = self._asked(lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used)
        return DeviceUse(
            gpu_ratio=None if busy is None else busy / 100.0,
            gpu_memory_bytes=self._memory_of(handle, pid) or memory,
            gpu_clock_ratio=clock / highest if clock is not None and highest else None,
            power_watts=None if milliwatts is None else milliwatts / 1000.0,
            throttled=self._reasons(handle),
            device=self._names[index],
        )

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._nvml.nvmlShutdown()

    def _index(self, pid: int, environment: Mapping[str, str]) -> int | None:
        for index, handle in enumerate(self._handles):
            if any(process.pid == pid for process in self._processes(handle)):
                return index
        visible = [name for name in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
        chosen = [self._named(name.strip()) for name in visible] if visible else range(len(self._handles))
        local = environment.get("LOCAL_RANK", "")
        if not local.isdigit():  # a script that starts its own workers: which of several it took is unknown
            return chosen[0] if len(chosen) == 1 else None
        return chosen[int(local)] if int(local) < len(chosen) else None

    def _named(self, name: str) -> int | None:
        if name.isdigit():
            return int(name) if int(name) < len(self._handles) else None
        return next((index for index, uuid in enumerate(self._names) if uuid.startswith(name)), None)

    def _memory_of(self, handle: Any, pid: int) -> int | None:
        used = [process.usedGpuMemory for process in self._processes(handle) if process.pid == pid]
        return next((int(size) for size in used if size), None)

    def _processes(self, handle: Any) -> Any:
        return self._asked(lambda: self._nvml.nvmlDeviceGetComputeRunningProcesses(handle)) or ()

    def _reasons(self, handle: Any) -> tuple[str, ...]:
        ask = getattr(self._nvml, "nvmlDeviceGetCurrentClocksEventReasons", None) or getattr(
            self._nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", None
        )
        bits = self._asked(lambda: ask(handle)) if ask else None
        return tuple(name for bit, name in _REASONS.items() if bits and bits & bit)

    def _asked(self, ask: Any) -> Any:
        """One answer of the driver; None where this device does not support the question."""
        try:
            return ask()
        except self._nvml.NVMLError:
            return None


def devices() -> Devices | None:
    """The devices, when nvidia-ml-py is installed and a driver answers it."""
    try:
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
        return Devices(nvml)
    except ImportError:
        return None
    except Exception:  # no driver, no permission, no device: then nothing is said about devices
        return None


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
