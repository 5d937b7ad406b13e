"""What the device of this worker does: matrix products per second by type, and memory moved by a large copy.

    matmul   2 n³ operations of an n × n product; the best n counts, of each n the median of its repetitions
    copy     bytes read plus bytes written, per second

Products of 32-bit numbers are computed as such: reduced precision (TF32) is switched off while this runs.
"""

from __future__ import annotations

import contextlib
from statistics import median
from time import perf_counter
from typing import Any, Callable

from paceline_agent import manifest

_SIDES = {"cpu": (256, 512, 1024), "cuda": (2048, 4096, 8192)}
_COPY_BYTES = {"cpu": 1 << 27, "cuda": 1 << 30}
_TYPES = ("float32", "bfloat16", "float16")
_REPEATS = 7
_LONGEST_S = 0.4  # of all repetitions of one size: the next size is then left out


def device_rates(local_rank: int) -> dict[str, Any]:
    """The rates of this worker's device, with all repetitions of the best size: rates_per_s."""
    import torch

    on_cuda = torch.cuda.is_available() and local_rank < torch.cuda.device_count()
    kind = "cuda" if on_cuda else "cpu"
    device = torch.device("cuda", local_rank) if on_cuda else torch.device("cpu")
    found: dict[str, Any] = {
        "device": kind,
        "device_name": torch.cuda.get_device_name(device) if on_cuda else manifest.cpu_name(),
        "threads": torch.get_num_threads(),
        "matmul": {},
        "copy_bytes_per_s": None,
        "problems": [],
    }
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        for name in _TYPES if on_cuda else _TYPES[:2]:
            try:
                best = _best_product(torch, device, getattr(torch, name))
            except RuntimeError as error:  # a type that the device does not know, or no memory left
                found["problems"].append(f"{name} product: {str(error).splitlines()[0][:200]}")
                continue
            found["matmul"][name] = best
        with contextlib.suppress(RuntimeError):
            found["copy_bytes_per_s"] = _copy_rates(torch, device, _COPY_BYTES[kind])
    finally:
        torch.set_float32_matmul_precision(before)
    return found


def _best_product(torch: Any, device: Any, dtype: Any) -> dict[str, Any]:
    best: dict[str, Any] = {}
    with torch.no_grad():
        for side in _SIDES[device.type]:
            # random numbers: constant ones take less power, and a device multiplies them faster than any training
            left, right = (torch.randn((side, side), device=device).to(dtype) for _ in range(2))
            out = torch.empty_like(left)

            def product(a: Any = left, b: Any = right, c: Any = out) -> None:
                torch.mm(a, b, out=c)

            seconds = _seconds(torch, device, product)
            rates = [2.0 * side**3 / s for s in seconds]
            if not best or median(rates) > median(best["flop_per_s"]):
                best = {"side": side, "flop_per_s": rates}
            if sum(seconds) > _LONGEST_S:
                break
    return best


def _copy_rates(torch: Any, device: Any, size_bytes: int) -> list[float]:
    source = torch.ones(size_bytes // 4, device=device)
    target = torch.empty_like(source).fill_(0.0)
    seconds = _seconds(torch, device, lambda: target.copy_(source))
    return [2.0 * size_bytes / s for s in seconds]


def _seconds(torch: Any, device: Any, work: Callable[[], Any]) -> list[float]:
    """Seconds of each repetition, after two that warm up."""

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    times = []
    for _ in range(_REPEATS + 2):
        wait()
        begun = perf_counter()
        work()
        wait()
        times.append(max(1e-9, perf_counter() - begun))
    return times[2:]
