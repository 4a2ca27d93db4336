import queue
import threading
from itertools import chain, repeat
from types import SimpleNamespace
from unittest.mock import Mock

import psutil
import pytest

from engine.hardware import devices, nvml, telemetry
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


def test_pretended_gpus_are_read_as_idle_and_called_so() -> None:
    reading = Sampler(Sink(), pretend=devices.pretended("RTX 4060", "RTX 5070 Ti")).read()
    assert reading.gpu is not None
    assert "5070 Ti" in reading.gpu.name
    assert reading.gpu.is_pretended
    assert (reading.gpu.ours_mb, reading.gpu.total_mb // 1024) == (0, 16)
    assert [gpu.number for gpu in reading.other_gpus] == [0]


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


def test_a_reading_has_the_gpu_with_our_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"small": 2 * GIB, "big": 16 * GIB}
    memory = {gpu: nvml.GpuMemory(total=size, used=GIB) for gpu, size in sizes.items()}
    monkeypatch.setattr(nvml, "handles", lambda: tuple(memory))
    monkeypatch.setattr(nvml, "memory", memory.get)
    answers = {"nvmlDeviceGetName": "GPU", "nvmlDeviceGetTemperature": 50}
    monkeypatch.setattr(nvml, "query", lambda name, *_: answers.get(name))
    gpu = Sampler(Sink(), own=OwnMemory(gpu_bytes=lambda: GIB // 2)).read().gpu
    assert gpu is not None
    assert (gpu.total_mb, gpu.ours_mb, gpu.others_mb) == (16 * 1024, 512, 512)
    assert (gpu.load_percent, gpu.temperature_c) == (0, 50)


@pytest.mark.usefixtures("no_gpu")
def test_a_child_that_ended_counts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = SimpleNamespace(pid=1, memory_info=Mock(side_effect=psutil.NoSuchProcess(1)))
    monkeypatch.setattr(telemetry, "_children", lambda _: [gone])
    assert Sampler(Sink()).read().ram_ours_mb > 0


@pytest.mark.usefixtures("no_gpu")
def test_a_reading_that_fails_does_not_end_the_sampler(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink()
    sampler = Sampler(sink, period_s=0.01)
    results = chain([OSError("busy")], repeat(psutil.virtual_memory()))
    monkeypatch.setattr(psutil, "virtual_memory", Mock(side_effect=results))
    sampler.start()
    assert isinstance(sink.events.get(timeout=5.0), Telemetry)
    sampler.stop()


def test_peak_memory_is_at_least_what_is_used_now() -> None:
    assert telemetry.peak_ram_bytes() >= psutil.Process().memory_info().rss * 0.9


@pytest.mark.parametrize(("after", "expected"), [(900, 300), (1000, 1000)])
def test_the_peak_is_that_of_the_context_and_not_of_what_ran_before(
    monkeypatch: pytest.MonkeyPatch, after: int, expected: int
) -> None:
    """A large job and then a small one: the process's peak stays that of the large one."""
    monkeypatch.setattr(telemetry, "_PEAK_PERIOD_S", 60)
    peaks, sizes = iter((900, after)), iter((300, 200))
    monkeypatch.setattr(telemetry, "peak_ram_bytes", lambda: next(peaks))
    process = Mock(memory_info=lambda: SimpleNamespace(rss=next(sizes)))
    monkeypatch.setattr(telemetry.psutil, "Process", lambda: process)
    with telemetry.RamPeak() as peak:
        assert peak.so_far == expected
    assert "peak of memory" not in {thread.name for thread in threading.enumerate()}
