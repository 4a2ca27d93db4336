from __future__ import annotations

import os
import queue
import threading
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from engine.hardware import nvml, telemetry
from engine.hardware.gpu_reading import OwnMemory
from engine.hardware.telemetry import Sampler
from engine.protocol.events import Event, Telemetry

GIB = 2**30


class Sink:
    def __init__(self) -> None:
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def emit(self, event: Event) -> None:
        self.events.put(event)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "handles", tuple)


def with_gpu(monkeypatch: pytest.MonkeyPatch, ours: int | None) -> None:
    mine = SimpleNamespace(pid=os.getpid(), usedGpuMemory=ours)
    answers: dict[str, Any] = {
        "nvmlDeviceGetName": "GPU",
        "nvmlDeviceGetTemperature": 50,
        "nvmlDeviceGetComputeRunningProcesses": [mine],
    }
    monkeypatch.setattr(nvml, "handles", lambda: ("small", "big"))
    monkeypatch.setattr(nvml, "query", lambda name, *_: answers.get(name))
    monkeypatch.setattr(
        nvml,
        "memory",
        lambda handle: nvml.GpuMemory(total=(16 if handle == "big" else 2) * GIB, used=GIB),
    )


@pytest.mark.usefixtures("no_gpu")
def test_readings_come_until_stopped_and_the_thread_ends() -> None:
    sink = Sink()
    sampler = Sampler(sink, period_s=0.01)
    sampler.start()
    sampler.start()
    readings = [sink.events.get(timeout=5.0) for _ in range(3)]
    sampler.stop()
    sampler.stop()
    assert not any(thread.name == "telemetry" for thread in threading.enumerate())
    for reading in readings:
        assert isinstance(reading, Telemetry)
        assert reading.gpu is None
        assert 0 < reading.ram_ours_mb < reading.ram_total_mb


def test_memory_of_the_gpu_is_ours_and_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpu(monkeypatch, ours=GIB // 4)
    gpu = Sampler(Sink()).read().gpu
    assert gpu is not None
    assert (gpu.total_mb, gpu.ours_mb, gpu.others_mb) == (16 * 1024, 256, 768)
    assert (gpu.load_percent, gpu.temperature_c) == (0, 50)


def test_without_bytes_of_the_driver_those_of_torch_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_gpu(monkeypatch, ours=None)
    gpu = Sampler(Sink(), own=OwnMemory(gpu_bytes=lambda: GIB // 2)).read().gpu
    assert gpu is not None
    assert (gpu.ours_mb, gpu.others_mb) == (512, 512)


@pytest.mark.usefixtures("no_gpu")
def test_a_child_that_ended_counts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        pid = 1

        def memory_info(self) -> None:
            raise psutil.NoSuchProcess(1)

    monkeypatch.setattr(telemetry, "_children", lambda _: [Gone()])
    assert Sampler(Sink()).read().ram_ours_mb > 0


@pytest.mark.usefixtures("no_gpu")
def test_a_reading_that_fails_does_not_end_the_sampler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sink = Sink()
    sampler = Sampler(sink, period_s=0.01)
    whole, calls = psutil.virtual_memory, []

    def sometimes() -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("busy")
        return whole()

    monkeypatch.setattr(psutil, "virtual_memory", sometimes)
    sampler.start()
    assert isinstance(sink.events.get(timeout=5.0), Telemetry)
    sampler.stop()


def test_peak_memory_is_at_least_what_is_used_now() -> None:
    assert telemetry.peak_ram_bytes() >= psutil.Process().memory_info().rss * 0.9
