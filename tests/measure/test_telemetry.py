"""What workers used, from samples taken outside them: read, placed in the measured steps, combined over workers."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from paceline.analysis.question import Ask
from paceline.analysis.study import with_measured_power
from paceline.decide.recommend import Prices
from paceline.launch import nvml
from paceline.launch.telemetry import Sampler
from paceline.measure.telemetry import Use, limited, share_over, throttling, use_of, use_over
from paceline.plan.trials import plan_study
from paceline.records import (
    Estimate,
    Profile,
    Sample,
    Study,
    Telemetry,
    TrialResult,
    WorkerRecord,
    Workload,
)
from paceline.store.telemetry_files import telemetry

TRIAL = plan_study(Study(Workload("module", "t"), workers=(2,))).trials[0]


def worker(rank, *, begin=10.0, step_s=0.1, steps=40):
    """Steps 2 … of `step_s` seconds; with a warm-up of 10 the measured ones begin at `begin` + 10 steps."""
    samples = tuple(
        Sample(k, begin + k * step_s, step_s, None, 0.0, None, None, None, 1, False, 0.0)
        for k in range(2, steps + 11)
    )
    return WorkerRecord(rank, 2, samples, {})


def result(*samples, workers=2):
    return TrialResult(
        TRIAL, "ok", None, tuple(worker(rank) for rank in range(workers)), 9.0, "", tuple(samples)
    )


def busy(rank, cores_used, *, node=0, cores=4, **device):
    """A worker whose CPU seconds rise by `cores_used` every second, sampled at 9.5, 10.0, … 16.0."""
    times = [9.5 + 0.5 * i for i in range(14)]
    return [Telemetry(rank, node, t, 100 + cores_used * t, 10**8, cores, **device) for t in times]


def used(*samples, **kwargs):
    return use_of(result(*samples, **kwargs), warmup=10, steps=40)


def test_cores_in_use_are_those_of_all_workers_of_the_busiest_node():
    assert used(*busy(0, 1.0), *busy(1, 2.0)).cpu_ratio == pytest.approx(3.0 / 4)
    assert used(*busy(0, 1.0), *busy(1, 2.0, node=1)).cpu_ratio == pytest.approx(2.0 / 4)


def test_cpu_time_outside_the_measured_steps_does_not_count():
    """Measured: 11.0 to 15.0. One core then, four before and after."""

    def counted(t):
        return 4 * min(t, 11.0) + max(0.0, min(t, 15.0) - 11.0) + 4 * max(0.0, t - 15.0)

    samples = [replace(s, cpu_s=counted(s.t_s)) for s in busy(0, 0.0)]
    assert used(*samples, workers=1).cpu_ratio == pytest.approx(1.0 / 4)


def test_samples_that_cover_less_than_half_of_the_steps_tell_nothing():
    assert used(*busy(0, 1.0)[:5], workers=1).cpu_ratio is None
    assert used() is None


def test_a_device_is_the_mean_the_slowest_or_the_sum_as_its_meaning_has_it():
    first = busy(
        0, 1.0, gpu_ratio=0.5, gpu_memory_bytes=3, gpu_clock_ratio=0.9, power_watts=100.0, device="a"
    )
    second = busy(
        1, 1.0, gpu_ratio=1.0, gpu_memory_bytes=5, gpu_clock_ratio=0.6, power_watts=200.0, device="b"
    )
    found = used(*first, *second)
    assert (found.gpu_ratio, found.gpu_memory_bytes) == (0.75, 5)
    assert (found.gpu_clock_ratio, found.power_watts) == (pytest.approx(0.6), pytest.approx(300.0))
    shared = [replace(s, device="a", power_watts=100.0) for s in second]
    assert used(*first, *shared).power_watts == pytest.approx(100.0)


def test_clocks_held_back_are_a_doubt_and_a_chosen_clock_is_not():
    held = busy(0, 1.0, gpu_ratio=1.0, throttled=("sw_power_cap", "applications_clocks"))
    chosen = busy(0, 1.0, gpu_ratio=1.0, throttled=("applications_clocks",))
    (doubt,) = throttling(TRIAL.point, [used(*held, workers=1)])
    assert "sw_power_cap" in doubt.message
    assert doubt.value == 1.0
    assert list(throttling(TRIAL.point, [used(*chosen, workers=1), used(*busy(0, 1.0), workers=1)])) == []


def limit_samples(rank, stopped_every, *, period_s=0.1):
    """A worker under a CPU limit, stopped in one of so many periods."""
    counted = [round(s.t_s / period_s) for s in busy(rank, 0.5)]
    return [
        replace(s, periods=n, stopped_periods=n // stopped_every)
        for s, n in zip(busy(rank, 0.5), counted, strict=True)
    ]


def test_a_limit_that_stops_a_worker_is_a_note_and_one_that_seldom_does_is_not():
    often, seldom = limit_samples(0, 2), limit_samples(1, 20)
    both = used(*often, *seldom)
    assert both.stopped_ratio == pytest.approx(0.5, abs=0.03)
    (note,) = limited(TRIAL.point, [both])
    assert (note.id, note.level) == ("cpu-limit", "note")
    assert "50%" in note.message
    rare = used(*limit_samples(0, 20), workers=1)
    assert rare.stopped_ratio == pytest.approx(0.05, abs=0.03)
    assert list(limited(TRIAL.point, [rare, used(*busy(0, 1.0), workers=1)])) == []


def test_few_periods_of_a_limit_tell_nothing():
    assert used(*limit_samples(0, 2, period_s=1.0), workers=1).stopped_ratio is None


def test_launches_that_know_a_quantity_give_its_estimate():
    uses = [used(*busy(0, cores), workers=1) for cores in (1.0, 1.2)]
    assert use_over(uses, lambda use: use.cpu_ratio).n == 2
    assert use_over(uses, lambda use: use.gpu_ratio) is None


def test_the_interval_of_a_share_ends_at_all_of_it():
    uses = [Use(cpu_ratio=0.3), Use(cpu_ratio=0.9)]
    assert use_over(uses, lambda use: use.cpu_ratio).high > 1.0
    assert share_over(uses, lambda use: use.cpu_ratio).high == 1.0


def test_a_process_is_sampled_from_outside_and_only_one_of_this_trial(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", "while True: pass"],
        env={**os.environ, "PACELINE_TAG": "s:t", "PACELINE_NODE": "3"},
    )
    try:
        sampler = Sampler(tmp_path, tag="s:t", node=3)
        elsewhere = Sampler(tmp_path, tag="s:t", node=0)
        for _ in range(4):
            sampler.look([(5, child.pid), (6, os.getpid())])
            elsewhere.look([(5, child.pid)])
            time.sleep(0.5)
        sampler.close()
        elsewhere.close()
    finally:
        child.kill()
        child.wait()
    found = telemetry(tmp_path)
    assert {(s.rank, s.node) for s in found} == {(5, 3)}
    assert len(found) >= 3
    assert found[-1].cpu_s > found[0].cpu_s
    assert found[-1].rss_bytes > 10**6  # the first look may come before the child is Python
    assert found[0].node_cores >= 1
    assert found[0].gpu_ratio is None
    with open(tmp_path / "telemetry-3.jsonl", "a") as file:
        file.write('{"record": "worker", "ra')
    assert telemetry(tmp_path) == found


# ------------------------------------------------------------------ devices, with a driver made of straw


class NotSupported(Exception):
    pass


def refuse(*_):
    raise NotSupported


def straw(**others):
    """Two devices; process 7 runs on the second. None of them tells its power."""
    return SimpleNamespace(
        **{
            "NVML_CLOCK_SM": 1,
            "NVMLError": NotSupported,
            "nvmlInit": lambda: None,
            "nvmlShutdown": lambda: None,
            "nvmlSystemGetDriverVersion": lambda: "570.1",
            "nvmlDeviceGetCount": lambda: 2,
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}".encode(),
            "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=40 + handle),
            "nvmlDeviceGetClockInfo": lambda handle, kind: 1500,
            "nvmlDeviceGetMaxClockInfo": lambda handle, kind: 2000,
            "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(used=99),
            "nvmlDeviceGetPowerUsage": refuse,
            "nvmlDeviceGetComputeRunningProcesses": lambda handle: (
                [SimpleNamespace(pid=7, usedGpuMemory=11)] if handle == 1 else []
            ),
            "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: 0x1 | 0x4 | 0x40,
            **others,
        }
    )


def test_a_worker_is_on_the_device_that_lists_it_else_on_its_share_of_the_visible_ones():
    devices = nvml.Devices(straw())
    listed = devices.use(7, {"LOCAL_RANK": "0"})
    assert (listed.device, listed.gpu_ratio, listed.gpu_memory_bytes) == ("GPU-1", 0.41, 11)
    assert listed.gpu_clock_ratio == 0.75
    assert listed.power_watts is None  # this device does not tell
    assert listed.throttled == ("sw_power_cap", "hw_thermal_slowdown")
    assert devices.use(8, {"LOCAL_RANK": "1"}).device == "GPU-1"
    assert devices.use(9, {"LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": "1,0"}).device == "GPU-1"
    assert devices.use(10, {"LOCAL_RANK": "1", "CUDA_VISIBLE_DEVICES": "GPU-1,GPU-0"}).device == "GPU-0"
    assert devices.use(11, {"LOCAL_RANK": "2"}) is None
    assert devices.use(12, {}) is None  # which of the two a script took by itself is unknown
    assert devices.use(13, {"CUDA_VISIBLE_DEVICES": "1"}).device == "GPU-1"


def test_without_a_driver_nothing_is_said_about_devices(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvml.devices() is None
    monkeypatch.setitem(sys.modules, "pynvml", straw(nvmlInit=refuse))
    assert nvml.devices() is None
    monkeypatch.setitem(sys.modules, "pynvml", straw())
    assert nvml.devices().driver == "570.1"


def test_energy_is_reckoned_with_the_power_that_was_sampled_unless_one_is_given():
    profiles = [
        Profile(replace(TRIAL.point, workers=workers), "ok", None, power_watts=Estimate(watts))
        for workers, watts in ((1, 300.0), (2, 620.0), (4, 1400.0))
    ]
    assert with_measured_power(Ask(), profiles).prices.worker_watts == 310.0
    given = Ask(prices=Prices(worker_watts=500.0))
    assert with_measured_power(given, profiles) == given
    assert with_measured_power(Ask(), [replace(p, power_watts=None) for p in profiles]) == Ask()
