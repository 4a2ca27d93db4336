from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from engine.hardware import devices, nvml

GIB = 2**30


@pytest.fixture(autouse=True)
def fresh_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "_session", None)
    monkeypatch.setattr(nvml, "_failure", "")


def fake_gpu(monkeypatch: pytest.MonkeyPatch, processes: list[Any]) -> None:
    """A driver with one GPU of 16 GiB of which 5 GiB are used."""
    answers = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: f"gpu {index}",
        "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=16 * GIB, used=5 * GIB),
        "nvmlDeviceGetComputeRunningProcesses": lambda _: processes,
        "nvmlDeviceGetGraphicsRunningProcesses": lambda _: processes[:1],
        "nvmlDeviceGetName": lambda _: b"NVIDIA Test",
        "nvmlSystemGetDriverVersion": lambda: "580.1",
        "nvmlDeviceGetCudaComputeCapability": lambda _: [12, 0],
        "nvmlDeviceGetUtilizationRates": lambda _: SimpleNamespace(gpu=87, memory=40),
        "nvmlDeviceGetTemperature": lambda _, __: 63,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)


def process(pid: int, amount: int | None) -> Any:
    return SimpleNamespace(pid=pid, usedGpuMemory=amount)


def test_without_a_driver_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", missing)
    assert devices.gpus() == ()
    assert "Not Found" in nvml.failure()


def test_a_gpu_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_gpu(monkeypatch, [])
    assert devices.gpus() == (
        devices.Gpu(
            name="NVIDIA Test",
            total_bytes=16 * GIB,
            free_bytes=11 * GIB,
            driver="580.1",
            capability=(12, 0),
        ),
    )


def test_an_old_driver_without_capability_still_has_its_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake_gpu(monkeypatch, [])

    def unknown(_: object) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetCudaComputeCapability", unknown)
    (gpu,) = devices.gpus()
    assert gpu.capability is None


def test_a_process_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_gpu(monkeypatch, [process(7, 3 * GIB), process(8, GIB)])
    assert nvml.memory("gpu 0") == nvml.GpuMemory(total=16 * GIB, used=5 * GIB)
    assert nvml.processes("gpu 0") == {7: 3 * GIB, 8: GIB}


def test_unknown_bytes_of_a_process_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_gpu(monkeypatch, [process(7, None)])
    assert nvml.processes("gpu 0") == {7: None}


@pytest.fixture
def three_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large slow GPU, one that is not in the table, and the fastest one in the last slot."""
    fake_gpu(monkeypatch, [])
    names = ["NVIDIA GeForce RTX 3060", "NVIDIA GeForce GT 1030", "NVIDIA GeForce RTX 4090"]
    sizes = [12 * GIB, 2 * GIB, 24 * GIB]
    answers = {
        "nvmlDeviceGetCount": lambda: 3,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda handle: names[handle],
        "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}ab",
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=sizes[handle], used=0),
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)


@pytest.mark.usefixtures("three_gpus")
@pytest.mark.parametrize(
    ("order", "visible", "indices"),
    [
        (None, None, [2, 0, 1]),
        ("PCI_BUS_ID", None, [0, 1, 2]),
        (None, "1", [0]),
        ("PCI_BUS_ID", "1", [1]),
        (None, "2, 0", [1, 2]),
        (None, "GPU-1", [1]),
        (None, "0,7,1", [2]),
        (None, "", []),
        (None, "-1", []),
        (None, "GPU-9", []),
    ],
)
def test_gpus_are_those_that_cuda_shows_in_its_order(
    monkeypatch: pytest.MonkeyPatch, order: str | None, visible: str | None, indices: list[int]
) -> None:
    for name, value in (("CUDA_DEVICE_ORDER", order), ("CUDA_VISIBLE_DEVICES", visible)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert [gpu.index for gpu in devices.gpus()] == indices
