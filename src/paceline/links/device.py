"""A probed device beside its data sheet: dense rates, never those with sparsity, of the very form factor that it is.

A device whose name is in no row of gpus.toml has no ratio, and that is said. Workers that share a device, or a host's
cores, share its rates: the probe runs on all workers at the same time, as training does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from paceline.core import calibration
from paceline.core.units import percent_text
from paceline.records import DeviceProbe, DeviceRate, Finding

__all__ = ["device_findings", "device_lines", "with_data_sheet"]

_COLUMNS = {
    "float32": "fp32_flop_per_s",
    "bfloat16": "bf16_dense_flop_per_s",
    "float16": "fp16_dense_flop_per_s",
    "copy": "memory_bytes_per_s",
}
_WORDS = {
    "float32": "products of float32 matrices",
    "bfloat16": "products of bfloat16 matrices",
    "float16": "products of float16 matrices",
    "copy": "memory bandwidth",
}
_SLOWER_THAN_ALIKE_RATIO = 0.85  # of the median of the same devices

Rows = Mapping[str, Mapping[str, object]]


def with_data_sheet(device: DeviceProbe, gpus: Rows) -> DeviceProbe:
    """The device with what its data sheet promises, where there is one."""
    row = next((row for row in gpus.values() if device.name in _names(row)), None)
    if row is None or device.device == "cpu":
        return device
    rates = tuple(replace(rate, spec_per_s=_promised(row, rate)) for rate in device.rates)
    return replace(device, rates=rates, spec=str(row.get("source", "data sheet")))


def device_lines(devices: Sequence[DeviceProbe]) -> tuple[str, ...]:
    """One line for every kind of device: its rates, the slowest worker's, beside the data sheet."""
    lines = []
    for name in dict.fromkeys(device.name for device in devices):
        same = [device for device in devices if device.name == name]
        parts = []
        for quantity in _WORDS:
            rates = [rate for device in same for rate in device.rates if rate.quantity == quantity]
            if not rates:
                continue
            slowest = min(rates, key=lambda rate: rate.per_s.value)
            share = (
                ""
                if slowest.spec_per_s is None
                else f" = {percent_text(slowest.per_s.value / slowest.spec_per_s)}"
            )
            parts.append(f"{_WORDS[quantity]} {_amount(slowest)}{share}")
        sheet = same[0].spec or (
            "a CPU has no data sheet here" if same[0].device == "cpu" else "no data sheet"
        )
        count = f"{len(same)} workers" if len(same) > 1 else "1 worker"
        lines.append(f"{name}, {count}: {', '.join(parts)} ({sheet})")
    return tuple(lines)


def device_findings(devices: Sequence[DeviceProbe]) -> tuple[Finding, ...]:
    """Devices that do little of what their data sheet promises, and workers whose device is slower than its like."""
    return (*_poor(devices), *_slow(devices))


def _poor(devices: Sequence[DeviceProbe]) -> tuple[Finding, ...]:
    found = []
    for device in devices:
        for rate in device.rates:
            if rate.spec_per_s is None or rate.per_s.value >= calibration.POOR_DEVICE.value * rate.spec_per_s:
                continue
            found.append(
                Finding(
                    "device-below-spec",
                    "doubt",
                    f"worker {device.worker}: {device.name} does {_WORDS[rate.quantity]} at {_amount(rate)}, "
                    f"{percent_text(rate.per_s.value / rate.spec_per_s)} of its data sheet",
                    value=rate.per_s.value / rate.spec_per_s,
                    threshold=calibration.POOR_DEVICE.value,
                    hint="nvidia-smi -q -d CLOCK,POWER,PERFORMANCE shows clocks, power and who else is on the device",
                )
            )
    return tuple(found)


def _slow(devices: Sequence[DeviceProbe]) -> tuple[Finding, ...]:
    found = []
    for name in dict.fromkeys(device.name for device in devices):
        same = [device for device in devices if device.name == name]
        for quantity in _WORDS:
            rates = {d.worker: r.per_s for d in same for r in d.rates if r.quantity == quantity}
            if len(rates) < 3:
                continue  # of two it is not known which is the odd one
            typical = median(rate.value for rate in rates.values())
            for worker, rate in rates.items():
                if rate.high is not None and rate.high < _SLOWER_THAN_ALIKE_RATIO * typical:
                    found.append(
                        Finding(
                            "slow-device",
                            "doubt",
                            f"worker {worker}: {_WORDS[quantity]} at {percent_text(rate.value / typical)} of what the "
                            f"same device does on the other workers ({name})",
                            value=rate.value / typical,
                            threshold=_SLOWER_THAN_ALIKE_RATIO,
                            hint="a synchronous step waits for its slowest worker: look for heat, power or another "
                            "process there",
                        )
                    )
    return tuple(found)


def _promised(row: Mapping[str, object], rate: DeviceRate) -> float | None:
    value = row.get(_COLUMNS.get(rate.quantity, ""))
    return float(value) if isinstance(value, int | float) else None


def _names(row: Mapping[str, object]) -> tuple[str, ...]:
    names = row.get("device_names")
    return tuple(str(name) for name in names) if isinstance(names, list) else ()


def _amount(rate: DeviceRate) -> str:
    unit = "B/s" if rate.quantity == "copy" else "FLOP/s"
    value = rate.per_s.value
    prefix, size = next((p, s) for p, s in (("T", 1e12), ("G", 1e9), ("M", 0.0)) if value >= s)
    return f"{value / (size or 1e6):.3g} {prefix}{unit}"
