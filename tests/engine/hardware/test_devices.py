import os
import sys
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import pynvml
import pytest

from engine.hardware import devices, nvml

GIB = 2**30


def test_the_processor_has_a_name_threads_and_memory() -> None:
    assert devices.cpu_name()
    assert 1 <= devices.cpu_threads() <= (os.cpu_count() or 1)
    total, available = devices.ram()
    assert 0 < available <= total


def test_bfloat16_is_known_without_torch_on_linux() -> None:
    had_torch = "torch" in sys.modules
    devices.cpu_has_bf16.cache_clear()
    assert devices.cpu_has_bf16() in (True, False)
    assert had_torch or sys.platform != "linux" or "torch" not in sys.modules


@pytest.fixture(autouse=True)
def fresh_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "_session", None)
    monkeypatch.setattr(nvml, "_failure", "")


def fake_gpu(monkeypatch: pytest.MonkeyPatch, sizes: dict[int, int | None]) -> None:
    """A driver with one GPU of 16 GiB of which 5 GiB are used; bytes by process."""
    processes = [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in sizes.items()]
    begin = Mock()

    def driver() -> str:
        if not begin.called:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)
        return "580.1"

    answers = {
        "nvmlInit": begin,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: f"gpu {index}",
        "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=16 * GIB, used=5 * GIB),
        "nvmlDeviceGetComputeRunningProcesses": lambda _: processes,
        "nvmlDeviceGetGraphicsRunningProcesses": lambda _: processes[:1],
        "nvmlDeviceGetName": lambda _: b"NVIDIA Test",
        "nvmlSystemGetDriverVersion": driver,
        "nvmlDeviceGetCudaComputeCapability": lambda _: [12, 0],
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)


def test_without_a_driver_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
    monkeypatch.setattr(pynvml, "nvmlInit", Mock(side_effect=missing))
    assert devices.gpus() == ()
    assert "Not Found" in nvml.failure()


def test_a_gpu_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_gpu(monkeypatch, {})
    (gpu,) = devices.gpus()
    sizes = {"total_bytes": 16 * GIB, "free_bytes": 11 * GIB}
    expected = devices.Gpu(name="NVIDIA Test", driver="580.1", capability=(12, 0), **sizes)
    assert gpu == expected
    unknown = pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)  # an old driver
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCudaComputeCapability", Mock(side_effect=unknown))
    assert devices.gpus() == (replace(expected, capability=None),)


def test_a_process_counts_once_and_unknown_bytes_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {7: 3 * GIB, 8: GIB, 9: None}
    fake_gpu(monkeypatch, sizes)
    assert nvml.memory("gpu 0") == nvml.GpuMemory(total=16 * GIB, used=5 * GIB)
    assert nvml.processes("gpu 0") == sizes


def test_gpus_are_those_that_cuda_shows_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large slow GPU, one that is not in the table, and the fastest one in the last slot."""
    fake_gpu(monkeypatch, {})
    names = ["NVIDIA GeForce RTX 3060", "NVIDIA GeForce GT 1030", "NVIDIA GeForce RTX 4090"]
    answers = {
        "nvmlDeviceGetCount": lambda: 3,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda handle: names[handle],
        "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}ab",
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)
    shown = {
        (None, None): [2, 0, 1],
        ("PCI_BUS_ID", None): [0, 1, 2],
        (None, "1"): [0],
        ("PCI_BUS_ID", "1"): [1],
        (None, "2, 0"): [1, 2],
        (None, "GPU-1"): [1],
        (None, "0,7,1"): [2],
        (None, ""): [],
        (None, "-1"): [],
        (None, "GPU-9"): [],
    }
    for values, indices in shown.items():
        for name, value in zip(("CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES"), values, strict=True):
            monkeypatch.delenv(name, raising=False)
            if value is not None:
                monkeypatch.setenv(name, value)
        assert [gpu.index for gpu in devices.gpus()] == indices, values
